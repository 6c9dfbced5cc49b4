"""What PyTorch records, and the traces of a job made of it."""
