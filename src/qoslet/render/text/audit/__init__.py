"""Text of audits, of what happened since one, and of their repairs."""
