"""Memory at run time: accounting, the throttle guard, eviction under pressure."""
