"""Audits of this machine, once or again and again, and the repair of what they found."""
