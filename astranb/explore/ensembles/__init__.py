"""Runs that differ by chance or by their starts."""
