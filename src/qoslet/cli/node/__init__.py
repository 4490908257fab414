"""Commands that act on or look at this machine."""
