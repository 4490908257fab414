"""The web page: HTML and SVG of a node and its pods, and the files that go with them."""
