"""The batch of one iteration: tokens of several requests that pass through the model together."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Batch"]


class Batch(NamedTuple):
    """Work of one iteration.

    Attributes
    ----------
    decodes : int
        Sequences of which the last token is computed.
    seen : int
        Tokens that these attend to, of all sequences together, each with its own token.
    chunks : tuple of (int, int)
        Parts of prompts: tokens, and tokens that the last of them attends to.
    ended : int
        Parts that are the last of their prompt, and so give a token.

    Examples
    --------
    >>> Batch(8, 8 * 1024, ((512, 512),), 1).tokens
    520
    """

    decodes: int
    seen: int = 0
    chunks: tuple[tuple[int, int], ...] = ()
    ended: int = 0

    @property
    def tokens(self) -> int:
        """Tokens that pass through the model."""
        return self.decodes + sum(count for count, _ in self.chunks)

    @property
    def outputs(self) -> int:
        """Tokens that the iteration gives."""
        return self.decodes + self.ended
