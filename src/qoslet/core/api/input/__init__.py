"""What stands beside pods in the input, and which of its pods are chosen."""
