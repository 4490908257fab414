"""What the loop keeps between two syncs, and what performs its steps."""
