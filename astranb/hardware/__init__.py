"""Floor 1: devices as data. One readable file for each, with a source and a kind for every number."""
