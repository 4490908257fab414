"""What this machine's kernel tells of memory: files, events, triggers, the log."""
