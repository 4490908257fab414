"""A kubelet on this machine: its process, its files, what it answers, and its runtime's containers."""
