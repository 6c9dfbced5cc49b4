"""Messages between a workbench and its page: every message gets an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from astranb.core.errors import AstranbError, InputError, near

from .feed import Answer, Feed, Message
from .session import COMMANDS, PLAYING

__all__ = ["BrowserConnection"]

_MOST_UNREAD, _MOST_UNREAD_AT_REST = 3, 6
"""Messages that a browser may lag behind: while a run plays, and at rest, where Pause must show at once."""


class BrowserConnection:
    """The connection of a workbench to the browser.

    ``answers`` holds a function for each question, ``command`` takes a command and its options, ``send``
    sends JSON and buffers. ``ready`` is whether a page shows the workbench.
    """

    def __init__(
        self,
        feed: Feed,
        answers: Mapping[str, Answer],
        command: Callable[..., None],
        send: Callable[..., None],
    ) -> None:
        self._feed, self._session, self._answers = feed, feed.session, answers
        self._command, self._send = command, send
        self.ready, self._unread, self._behind = False, 0, False

    def changed(self) -> None:
        """Send the state; where the browser lags behind, remember to."""
        self._feed.mark()
        if not self.ready:
            return
        most = _MOST_UNREAD if self._session.playing else _MOST_UNREAD_AT_REST
        if self._unread >= most and not self._session.blocked:
            self._behind = True
            return
        self._behind = False
        self._unread += 1
        self._write(self._feed.state())

    def receive(self, _widget: Any, content: Any, _buffers: Any) -> None:
        """Take a message of the browser's, in whatever thread."""
        self._session.hand(lambda: self._reply(content))

    def _reply(self, content: Any) -> None:
        """Whatever a message holds, the answer is a message."""
        try:
            self.answer(content)
        except (AstranbError, KeyError, TypeError, ValueError) as error:
            self._write(({"type": "error", "text": str(error)}, []))

    def answer(self, content: dict[str, Any]) -> None:
        """Answer a message."""
        kind = content["type"]
        if kind == "ready":
            self.ready, self._unread = True, 0
            self._write(self._feed.scene())
            self.changed()
        elif kind == "away":  # one page has closed its views; another one may still have some
            self.ready = False
            self._write(({"type": "roll"}, []))
        elif kind == "read":
            self._unread = max(0, self._unread - 1)
            if self._behind:
                self.changed()
        elif kind == "fine":
            self._unread += 1
            self._write(self._feed.state(fine=True))
        elif kind == "timeline":
            self._write(self._feed.timeline(with_spans=False))
        elif kind == "inspect":
            self._write(({"type": "inspection", "for": content["path"], **self._inspection(content)}, []))
        elif kind == "ask":
            self._write(self._answer_to(content))
        elif isinstance(kind, str) and (kind in PLAYING or kind in COMMANDS):
            self._command(kind, background=True, **{k: v for k, v in content.items() if k != "type"})
        else:
            raise InputError(f"unknown message {kind!r}", where="workbench")

    def _answer_to(self, content: dict[str, Any]) -> Message:
        """Answer a view's question; an error is an answer, too."""
        about = {"type": "answer", "id": content["id"]}
        try:
            question = str(content["question"])
            if question not in self._answers:
                hint = near(question, self._answers)
                raise InputError(f"unknown question {question!r}", where="workbench", hint=hint)
            options = dict(content.get("options", {}))
            meta, buffers = self._answers[question](self._feed, options)
            held = {"at_ps": self._held_ps(options["at_ps"])} if "at_ps" in options else {}
        except (AstranbError, KeyError, TypeError, ValueError, IndexError) as error:
            return {**about, "error": str(error)}, []
        return {**meta, **about, **held}, buffers

    def _held_ps(self, at_ps: float | None) -> int:
        """The time that an answer about the cursor (None: now) holds for."""
        now_ps: int = self._session.sim.now_ps
        return now_ps if at_ps is None else min(int(at_ps), now_ps)

    def _inspection(self, content: dict[str, Any]) -> dict[str, Any]:
        at_ps = content.get("at_ps")
        held = {"at_ps": self._held_ps(at_ps)}
        try:
            return {"found": self._session.inspect(str(content["path"]), at_ps), **held}
        except AstranbError as error:
            return {"error": str(error), **held}

    def _write(self, message: Message) -> None:
        self._send(*message)
