"""What each Kubernetes release and runtime version does otherwise, with evidence."""
