"""Many nodes at once: their documents as a stream, each node's plan in numbers, totals, and what fits."""
