"""Two plans: which values differ, and what that means for the pods."""
