"""The flags of a kubelet: its command line, and the same inside documents of those who start it."""
