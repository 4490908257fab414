"""Values to text, JSON documents and metrics. Nothing is decided here."""
