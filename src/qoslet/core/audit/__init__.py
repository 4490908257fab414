"""Whether a node is what its plan says: plan against what was read, value by value, pure."""
