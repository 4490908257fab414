"""What an agent may do on a node whose cgroups a kubelet owns."""
