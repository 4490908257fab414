"""Other processes: work that is spread over some, and what keeps this one from making any."""
