"""Serving: the requests that a model answers, and how their tokens are batched and kept in memory.

Inputs only: a trace of requests (:class:`RequestTrace`, from a generator with a seed or a file), the
policy of the scheduler (:class:`ServingPolicy`), and the blocks of keys and values that fit in a GPU's
memory (:func:`cache_blocks`). :func:`astranb.explore.serve` answers the requests.
"""

from __future__ import annotations

from .batch import Batch
from .kv_cache import blocks_of, cache_blocks, token_bytes
from .policy import ServingPolicy
from .requests import ARRIVALS, Request, RequestTrace, read_requests, requests_of

__all__ = [
    "ARRIVALS",
    "Batch",
    "Request",
    "RequestTrace",
    "ServingPolicy",
    "blocks_of",
    "cache_blocks",
    "read_requests",
    "requests_of",
    "token_bytes",
]
