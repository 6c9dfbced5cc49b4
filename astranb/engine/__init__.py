"""Floor 5: the engines. One protocol, and what answers it: cache lines, messages, layer tables."""
