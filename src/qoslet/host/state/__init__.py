"""The state folder of a root: journal, locks, records, the socket."""
