"""What others ask of a running agent, and how it answers."""
