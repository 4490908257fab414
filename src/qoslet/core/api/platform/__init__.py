"""The operating system and the isolation that a pod wants, and its RuntimeClass."""
