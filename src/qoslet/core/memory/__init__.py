"""What the kernel tells of memory, as numbers and events."""
