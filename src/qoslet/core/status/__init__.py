"""The one snapshot that every surface draws."""
