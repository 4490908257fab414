"""Resource blocks into each other: what a runtime of some version writes for them, row by row."""
