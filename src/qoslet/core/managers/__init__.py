"""The CPU, memory and topology managers of a node."""
