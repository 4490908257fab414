"""Values to the JSON documents of `qoslet/v1`."""
