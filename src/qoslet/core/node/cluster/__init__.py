"""The pods of one node as the API server of its cluster tells them."""
