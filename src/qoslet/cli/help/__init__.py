"""Commands that describe the program."""
