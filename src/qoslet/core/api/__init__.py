"""Kubernetes documents to `Pod`, every fault with its field."""
