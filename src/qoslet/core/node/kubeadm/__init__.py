"""What kubeadm's documents say of a node."""
