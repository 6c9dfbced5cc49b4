"""Recorded jobs on other clusters."""
