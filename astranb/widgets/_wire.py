"""What a workbench and its page say to each other: every message gets an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from astranb.core.errors import AstranbError, InputError, near

from ._feed import Message
from ._session import PLAYING, Session

__all__ = ["Wire"]

_MOST_UNREAD, _MOST_UNREAD_AT_REST = 3, 6
"""Messages that a browser may lag behind, while it plays and else: that it has paused must not wait.
What follows is told in one message when the browser has caught up."""


class Wire:
    """The wire of a workbench; a part of the widget."""

    _session: Session
    _feed: Any
    _questions: Mapping[str, Callable[[Any, dict[str, Any]], Message]]
    _ready: bool
    _unread: int
    _behind: bool
    _ask: Any  # of the widget's controls
    send: Any  # of the widget
    on_msg: Any

    def _attach(self, session: Session, feed: Any) -> None:
        """Begin to show what a session moves."""
        self._session, self._feed = session, feed
        self._feed.bench = self
        self._ready, self._unread, self._behind = False, 0, False
        self._detach = session.attach(self._changed)
        self.on_msg(self._received)

    def _noticed(self) -> None:
        """Something has changed: what this workbench itself does then."""

    def _changed(self) -> None:
        """Something has changed: tell the browser, or, when it lags behind, remember to."""
        self._feed.mark()
        self._noticed()
        if not self._ready:
            return
        most = _MOST_UNREAD if self._session.playing else _MOST_UNREAD_AT_REST
        if self._unread >= most and not self._session.blocked:
            self._behind = True
            return
        self._behind = False
        self._unread += 1
        self._tell(self._feed.state())

    def _received(self, _widget: Any, content: Any, _buffers: Any) -> None:
        """A message of the browser's, in whatever thread."""
        self._session.hand(lambda: self._reply(content))

    def _reply(self, content: Any) -> None:
        """Whatever a message holds, the answer is a message."""
        try:
            self._answer(content)
        except (AstranbError, KeyError, TypeError, ValueError) as error:
            self._tell(({"type": "error", "text": str(error)}, []))

    def _answer(self, content: dict[str, Any]) -> None:
        kind = content["type"]
        if kind == "ready":
            self._ready, self._unread = True, 0
            self._tell(self._feed.scene())
            self._changed()
        elif kind == "away":  # one page has closed its views; another one may still have some
            self._ready = False
            self._tell(({"type": "roll"}, []))
        elif kind == "read":
            self._unread = max(0, self._unread - 1)
            if self._behind:
                self._changed()
        elif kind == "fine":
            self._unread += 1
            self._tell(self._feed.state(fine=True))
        elif kind == "timeline":
            self._tell(self._feed.timeline(with_spans=False))
        elif kind == "inspect":
            self._tell(({"type": "inspection", "for": content["path"], **self._look(content)}, []))
        elif kind == "ask":
            self._tell(self._reply_to(content))
        elif kind in PLAYING or kind in self._session.verbs:
            self._ask(kind, background=True, **{k: v for k, v in content.items() if k != "type"})
        else:
            raise InputError(f"unknown message {kind!r}", where="workbench")

    def _reply_to(self, content: dict[str, Any]) -> Message:
        """Answer a view's question (``_answers.py``); what goes wrong is an answer, too."""
        about = {"type": "answer", "id": content["id"]}
        try:
            question = str(content["question"])
            if question not in self._questions:
                raise InputError(
                    f"unknown question {question!r}", where="workbench", hint=near(question, self._questions)
                )
            meta, buffers = self._questions[question](self._feed, dict(content.get("options", {})))
        except (AstranbError, KeyError, TypeError, ValueError, IndexError) as error:
            return {**about, "error": str(error)}, []
        return {**meta, **about}, buffers

    def _look(self, content: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"found": self._session.inspect(str(content["path"]), content.get("at_ps"))}
        except AstranbError as error:
            return {"error": str(error)}

    def _tell(self, message: Message) -> None:
        self.send(message[0], buffers=message[1])
