"""Floor 4: what is run. Operations of ranks, and the system layer that makes messages of them."""
