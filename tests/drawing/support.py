"""Names as a file of somebody who means harm could hold them."""

from __future__ import annotations

import json
from typing import Any

import astranb as anb

__all__ = ["HOSTILE", "MARKUP", "hostile_simulation"]

HOSTILE = "</script><img src=x onerror=alert(1)>&<!--"
"""Programs and phases may be called anything."""

MARKUP = "<script><img onerror>"
"""The worst that the letters of InfraGraph's names allow."""


def hostile_simulation() -> anb.Simulation:
    """Two GPUs and a program whose names are all markup, run to the end."""
    text = json.dumps(anb.infragraph.blueprint("switch:gpus=2").to_dict())
    for name in ("switch", "box", "gpu", "sw", "link"):
        text = text.replace(f'"{name}"', json.dumps(MARKUP + name))
    # What the format itself calls so stays.
    text = text.replace(json.dumps(MARKUP + "link") + ":", '"link":')
    text = text.replace(f'"choice": {json.dumps(MARKUP + "switch")}', '"choice": "switch"')

    def program(p: Any) -> None:
        block = p.block(0)
        block.phase(HOSTILE)
        for chunk in range(p.input_chunks):
            block.copy(p.input(0)[chunk], p.output(0)[chunk], p.output(1)[chunk])

    program.__name__ = HOSTILE
    wanted = anb.collectives.Collective.of("broadcast", "4 KiB", program, channels=1)
    sim = anb.Simulation(anb.infragraph.load(json.loads(text)), wanted, gpu="h100-sxm")
    sim.run()
    return sim
