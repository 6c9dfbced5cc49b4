"""Runs of operations of ranks: what the message and the layer engine share."""
