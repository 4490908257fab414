"""Where an agent has the pods of its node from, and which of these it takes."""
