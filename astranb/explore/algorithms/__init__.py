"""Algorithms of one collective against each other: the fastest one, over sizes and numbers of ranks."""
