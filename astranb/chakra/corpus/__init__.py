"""Learn from a corpus of multi-rank traces, and draw workloads like them that can be shared.

What is drawn has the structure and the statistics of the corpus, but none of its names, sizes, ids or
groups: see :class:`CorpusModel` and :class:`CorpusNetwork`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .job import CorpusJob as CorpusJob
    from .job import read_corpus as read_corpus
    from .model import Corpus as Corpus
    from .model import CorpusModel as CorpusModel
    from .network import CorpusNetwork as CorpusNetwork
    from .quality_measures import privacy as privacy
    from .quality_measures import quality as quality

__getattr__, __dir__ = lazy(__name__)
