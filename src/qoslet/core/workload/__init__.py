"""A pod as processes or containers, and its life."""
