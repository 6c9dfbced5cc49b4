"""Measured logs against simulated runs: presets fitted to a GPU, and slow parts found."""
