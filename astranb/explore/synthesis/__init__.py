"""Synthesised collective algorithms."""
