"""The API server of the cluster: requests to it, and the pods of a node as it tells them."""
