"""Commands that run an agent or ask a running one."""
