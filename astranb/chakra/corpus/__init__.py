"""Learn from a corpus of multi-rank traces, and draw workloads like them that can be shared.

What is drawn has the structure and the statistics of the corpus, but none of its names, sizes, ids or
groups: see :class:`CorpusModel` and :class:`CorpusNetwork`.
"""

from __future__ import annotations

from .job import CorpusJob, read_corpus
from .model import Corpus, CorpusModel
from .network import CorpusNetwork
from .quality import privacy, quality

__all__ = ["Corpus", "CorpusJob", "CorpusModel", "CorpusNetwork", "privacy", "quality", "read_corpus"]
