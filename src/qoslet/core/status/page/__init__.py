"""What a web page shows of a node: the last look, the looks before it, and what happened."""
