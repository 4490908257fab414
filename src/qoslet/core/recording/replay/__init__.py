"""What a guard policy would have done on a recording."""
