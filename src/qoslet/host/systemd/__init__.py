"""The systemd driver: units, properties, scopes, notification."""
