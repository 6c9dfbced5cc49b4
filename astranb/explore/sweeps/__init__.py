"""Sweeps: many points of an axes' product, run in processes, kept in files."""
