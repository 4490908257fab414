"""Documents of many nodes, as JSON, as a table of Arrow and as a page."""
