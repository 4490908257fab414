"""The agent joined with real or simulated parts."""
