"""What documents say of a node: a kubelet's, kubectl's, kubeadm's, qoslet's own."""
