"""Files that a user names, read and watched."""
