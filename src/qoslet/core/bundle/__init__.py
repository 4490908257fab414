"""A node in one file: what is in a bundle, what may be in it, and how it is packed."""
