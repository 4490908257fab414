"""What this machine can and cannot do for pods."""
