"""Serving: a trace of requests through instances of a model, iteration by iteration."""
