"""`linux.resources`, and how each runtime version writes it."""
