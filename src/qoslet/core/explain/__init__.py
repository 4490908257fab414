"""Why a value is what it is, or why a file is not written."""
