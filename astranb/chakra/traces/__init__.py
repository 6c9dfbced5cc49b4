"""Traces: their bytes, columns, files and checks."""
