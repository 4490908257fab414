"""Documents of an agent: its pods, memory, guard, pressure, and what a run reports."""
