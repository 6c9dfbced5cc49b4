"""A plug-in: a tab of the workbench with the rank that has waited longest."""

from pathlib import Path

from astranb.experimental import LineFeed, Panel, View


def patience(feed, options):
    most = max(feed.sim.result.per_rank(), key=lambda row: row["semaphore_ps"])
    return {"rank": most["rank"], "semaphore_ps": most["semaphore_ps"]}, []


VIEW = View(
    LineFeed,
    {"patience": patience},
    offline={"patience": ({},)},
    panel=Panel("patience", "Patience", Path(__file__).with_name("patience.js")),
)
