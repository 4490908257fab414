"""The API server of a node's cluster: the pods it tells, evictions through it, the rights that takes."""
