"""Serving: the requests that a model answers, and how their tokens are batched and kept in memory.

Inputs only: a trace of requests (:class:`RequestTrace`, from a generator with a seed or a file), the
policy of the scheduler (:class:`ServingPolicy`; :func:`engine_named` has those of engines), and the blocks
of keys and values that fit in a GPU's memory (:func:`cache_blocks`). :func:`astranb.explore.serve` answers
the requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .batch import Batch as Batch
    from .engine_files import ENGINES as ENGINES
    from .engine_files import ServingEngine as ServingEngine
    from .engine_files import engine_named as engine_named
    from .kv_cache import blocks_of as blocks_of
    from .kv_cache import cache_blocks as cache_blocks
    from .kv_cache import token_bytes as token_bytes
    from .policy import ServingPolicy as ServingPolicy
    from .requests import ARRIVALS as ARRIVALS
    from .requests import Request as Request
    from .requests import RequestTrace as RequestTrace
    from .requests import read_requests as read_requests
    from .requests import requests_of as requests_of

__getattr__, __dir__ = lazy(__name__)
