"""Commands that need no machine."""
