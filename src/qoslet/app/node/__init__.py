"""The node that a command computes for, as options name it or as a kubelet here runs it."""
