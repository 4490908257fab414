"""Whether a node is one that a kubelet starts on."""
