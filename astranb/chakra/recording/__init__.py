"""Recordings of PyTorch, and the traces of a job made from them."""
