"""Proofs: of a program without running it, and of the result of a run."""
