"""ConfigMaps and Secrets of the input, from which pods take variables and files."""
