"""A plug-in: infrastructures as a list of links in FILE.edges, ``a,b,GB/s,ns`` a line."""

import re

from astranb import InputError
from astranb.experimental import FileFormat


def read(path):
    links, edges, most = {}, [], 0
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not re.fullmatch(r"(\d+,){3}\d+", line):
            raise InputError(f"not a link: {line!r}", where=f"{path}:{number}", hint="write a,b,GB/s,ns")
        a, b, rate, latency = map(int, line.split(","))
        name, most = f"link-{rate}-{latency}", max(most, a, b)
        physical = {"bandwidth": {"gigabytes_per_second": rate}, "latency": {"ns": latency}}
        links[name] = {"name": name, "physical": physical}
        ends = {"ep1": {"component": f"gpu[{a}]"}, "ep2": {"component": f"gpu[{b}]"}}
        edges.append({**ends, "scheme": "one2one", "link": name})
    gpus = {"name": "gpu", "count": most + 1, "choice": "xpu"}
    box = {"name": "box", "components": [gpus], "links": list(links.values()), "edges": edges}
    return {"devices": [box], "instances": [{"name": "box", "device": "box", "count": 1}]}


BEGIN = re.compile(rb"\A\d+,\d+,")
FORMAT = FileFormat("edges", "a list of links", "give it as --infra", BEGIN, "infrastructure", read)
