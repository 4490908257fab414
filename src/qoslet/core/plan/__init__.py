"""Pods and a node to the tree of cgroups, and what its reader must know."""
