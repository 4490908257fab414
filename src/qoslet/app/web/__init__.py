"""The web page of a node: what it shows, and the server that shows it."""
