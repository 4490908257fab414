"""Many nodes at once, read as a stream."""
