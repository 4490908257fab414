"""Ways to look and ask. All of them draw values of ``core``; none decides."""
