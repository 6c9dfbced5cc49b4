"""Links and nodes that fail: what a machine loses, and the last moment to avoid a hang."""
