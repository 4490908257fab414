"""A pod's way through the agent: admitted, started, resized, torn down, collected."""
