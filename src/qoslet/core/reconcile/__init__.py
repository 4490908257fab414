"""Plan against observed: drift, safe order, journal, undo."""
