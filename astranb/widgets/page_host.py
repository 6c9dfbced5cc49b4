import json
from pathlib import Path

from astranb.sim import Simulation

from .connection import BrowserConnection
from .feed import feed_of
from .session import session_of
from .views import answers_of


class PageHost:
    def __init__(self, post):
        self.post = post

    def open(self, run):
        p = Path("/tmp/run.anb")
        p.write_bytes(bytes(run))
        self.sim = Simulation.load(p)
        feed = feed_of(session_of(self.sim))
        self.c = BrowserConnection(
            feed,
            answers_of(feed),
            feed.session.ask,
            lambda m, b: self.post(json.dumps({"bench": 0, "message": m}), b),
        )
        feed.session.attach(self.c.changed)

    def receive(self, text, buffers=()):
        m = json.loads(text)
        if "message" in m:
            self.c.receive(None, m["message"], [])
        elif m.get("do") == "hash":
            self.post(json.dumps({"answer": m["ask"], "result": self.sim.state_hash()}), [])
        elif "ask" in m:
            self.post(json.dumps({"answer": m["ask"], "error": "not yet"}), [])
