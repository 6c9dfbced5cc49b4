"""Benchmarks: each line prints a figure and a ratio to something measured in the same run."""
