"""Images: found in OCI layouts and archives, checked, and unpacked into directories of ours."""
