"""Values to text for terminals."""
