"""Small commands of every kind, whose ``--json`` the tests of schemas read, and the files that they take."""

import json
import shlex
from pathlib import Path

from astranb.chakra import TraceBuilder
from astranb.chakra.corpus import CorpusJob
from astranb.cli import main
from tests.explore.calibration.logs import measured
from tests.explore.calibration.test_preset_fit import measurement
from tests.workload.astrasim1.test_files import NETWORK, SYSTEM, TABLE

DATA = Path(__file__).resolve().parents[1] / "data"
JOBS = """\
infra: clos:servers=2,spines=1
jobs:
  - {name: a, collective: all_reduce, size: 1 MiB, algorithm: ring, ranks: [0, 8]}
  - {name: b, collective: all_reduce, size: 1 MiB, algorithm: ring, ranks: [1, 9]}
variation: {seed: 1, jitter: {cv: 0.05}}
"""
SWEEP = """\
run: {infra: "switch:gpus=4", collective: all_reduce, size: 64 KiB, fidelity: congestion}
axes: {algorithm: [ring, allpairs]}
"""
_RING = "run collective all_reduce --infra switch:gpus=4 --algorithm ring --size 4KiB"
_MODEL = "gpt3-125m --dp 2 --seq 64"
_STEP = f"chakra generate --model {_MODEL} --pp 2 --batch 4 --microbatches 2 --gpu h100-sxm -o step"
LINES = f"""\
{_RING}
{_RING} --fidelity congestion
{_RING} --fidelity analytical
run collective all_reduce --infra dgx-h100 --size 64KiB
run collective barrier --infra switch:gpus=4 --size 1
run exchange dispatch --infra dgx-h800 --tokens 8 --hidden 128 --topk 2 --experts 16
run model {_MODEL}
run model {_MODEL} --gpu h100-sxm --fidelity congestion --energy --price 2 --explain
run model {_MODEL} --expanded-memory '480 GB, 500 GB/s, 500 ns'
run model llama3-8b --tp 2 --mode decode --batch 2 --seq 64
run model gpt3-125m --dp 2 --batch 2 --seq 64 --suggest
run jobs jobs.yaml
run jobs jobs.yaml --runs 3
run trace step --system system.json --network network.yml
run trace step --system system.json --network network.yml --fidelity congestion --frames t
run trace step --system system.json --network network.yml --compat astrasim2
run trace w.txt --system s.txt --network n.json --num-passes 2
run trace w.txt --system s.txt --network n.json --compat astrasim1
explore SWEEP.yml --workers 0
serve --model llama3-8b --requests poisson:rate=20,prompt=200,output=20,count=10,seed=1
serve --model llama3-8b --requests closed:users=2,prompt=100,output=10,count=4 --disaggregate 1:1
traffic profile --model {_MODEL}
traffic profile --model {_MODEL} -o profile2.json
traffic record model {_MODEL} -o again.parquet
traffic record profile profile.json -o p.parquet
traffic record collective all_reduce --infra switch:gpus=2 --size 4KiB --algorithm ring -o c.parquet
traffic record trace step --system system.json --network network.yml -o t.parquet
traffic record jobs jobs.yaml -o j.parquet
traffic show step.parquet
traffic translate step.parquet --to goal -o step.goal
traffic translate --list
traffic replay step.parquet --infra switch:gpus=2
traffic replay step.goal --infra switch:gpus=2
infra list
infra show dgx-h100
infra show clos:servers=2
infra show no_gpus.yaml
infra check dgx-h100
infra convert clos:servers=16 --to ns3 -o topology.txt
infra convert topology.topo -o converted.yaml
infra draw switch:gpus=2 -o drawn.svg
collective list
collective export all_reduce --algorithm allpairs --ranks 4 -o plan.json
collective export all_reduce --algorithm allpairs --infra switch:gpus=4 --size 4KiB -o here.json
collective import plan0.json
collective import plan0.xml
collective show all_reduce --ranks 2
collective verify all_reduce --algorithm ring --ranks 4
collective verify all_reduce --algorithm wrong.py:stuck --ranks 2
collective verify all_reduce --algorithm wrong.py:race --ranks 2
collective synthesize --infra ring:gpus=4 --collective all_gather --size 64KiB
collective synthesize --infra ring:gpus=4 --collective all_gather --size 64KiB --schedule-only
chakra info step
chakra info step.0.et
chakra info {DATA}/recorded/two.0.et.json.gz
chakra info {DATA}/recorded/two.0.kineto.json.gz
chakra check step
chakra check faulty.et
chakra json step.0.et
{_STEP}2
chakra generate --list
chakra generate --case all --npus 2 -o cases
chakra convert step.0.et -o one.graphml
chakra convert w.txt --npus 2 -o table
chakra convert {DATA}/recorded/two.0.kineto.json.gz -o k.et
chakra link {DATA}/recorded/two -o linked
chakra link {DATA}/recorded/two.0.et.json.gz {DATA}/recorded/two.0.kineto.json.gz -o linked.et
chakra link {DATA}/recorded/two.0.et.json.gz {DATA}/recorded/two.0.kineto.json.gz -o linked.json
chakra statistics step
chakra statistics linked0
chakra timeline step -o timeline.json
chakra timeline step -o timeline.html
chakra compare step other
chakra compare step linked0
chakra draw step.0.et -o drawn.svg
chakra draw step.0.et -o drawn.html
chakra scale step --dp 4 -o scaled
chakra synthesize corpus -o new --ranks 4 --model-size 1000 --report report.json
chakra merge step -o merged.et
chakra split merged0.et -o split
gpu list
gpu show h100-sxm
gpu show mi300x
gpu from measured.json --like h100-sxm --name mine -o mine.json
gpu from timings.csv --like mi300x --name fitted -o fitted.json
gpu fit all_gather.txt --infra switch:gpus=4 --like h100-sxm --protocol LL --up-to 64KiB --name f -o f.json
gpu diagnose scatter.txt --infra switch:gpus=4
gpu expected --infra dgx-h100 --collective all_gather --lines-to 64KiB
plugins
schema
schema run
""".splitlines()
"""The commands as they are typed, without ``--json``."""

_WRONG = """\
def stuck(p):
    gates = [p.semaphore(rank) for rank in range(p.ranks)]
    for rank in range(p.ranks):
        block = p.block(rank)
        block.wait(gates[rank])
        block.signal(gates[(rank + 1) % p.ranks])

def race(p):
    for me in p.everyone:
        me.block().put(me.input[0], me.right.output[0])
"""
_NO_GPUS = """\
name: none
devices:
  - {name: d, components: [{name: sw, choice: switch, count: 1}]}
instances:
  - {name: i, device: d, count: 1}
"""
_SYSTEM = {
    f"{name}-implementation": ["ring"]
    for name in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
}
_MEASURED = {"L2 hit, near", "memory", "flag, one way"}
_MADE = [
    _STEP,
    "chakra generate --model gpt3-125m --dp 4 --batch 4 --seq 64 -o other",
    "chakra merge step -o merged0.et",
    f"chakra link {DATA}/recorded/two -o linked0",
    f"traffic record model {_MODEL} -o step.parquet",
    "traffic translate step.parquet --to goal -o step.goal",
    f"traffic profile --model {_MODEL} -o profile.json",
    "infra convert clos:servers=16 --to htsim -o topology.topo",
    "collective export all_reduce --algorithm allpairs --ranks 4 -o plan0.json",
    "collective export all_reduce --algorithm ring --ranks 4 -o plan0.xml",
]


def make_inputs() -> None:
    """Write into the working directory the files that the commands read."""
    from scripts.fit_gpus import TIMINGS

    files = {
        "jobs.yaml": JOBS, "SWEEP.yml": SWEEP, "wrong.py": _WRONG, "no_gpus.yaml": _NO_GPUS,
        "w.txt": TABLE, "s.txt": SYSTEM, "n.json": json.dumps(NETWORK),
        "system.json": json.dumps(_SYSTEM),
        "network.yml": "topology: [Ring]\nnpus_count: [4]\nbandwidth: [50.0]\nlatency: [500.0]\n",
        "measured.json": json.dumps(measurement("a100-sxm", only=_MEASURED)),
        "timings.csv": (TIMINGS / "aiter.csv").read_text("utf-8"),
    }  # fmt: skip
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8")
    slow = [("box.0.gpu.1->box.0.sw.0.bandwidth", "22500 MB/s")]
    sizes = [1 << power for power in range(10, 21, 2)]
    Path("all_gather.txt").write_text(
        measured("switch:gpus=4", "all_gather", sizes, outside_us=9.0, protocol="LL"), encoding="utf-8"
    )
    rooted = measured("switch:gpus=4", "scatter", [1 << 17], range(4), edits=slow, outside_us=8.0)
    Path("scatter.txt").write_text(rooted, encoding="utf-8")
    Path("corpus").mkdir()
    for layers in range(4, 14):
        made, last = TraceBuilder(), 0
        for layer in range(layers):
            after = last if layer else ()
            last = made.compute(f"layer {layer}", num_ops=10**6 * layers, duration_us=layers, after=after)
            last = made.collective("all_reduce", 1000 * layers, after=last)
        CorpusJob([made.build()] * 2, parameters=layers**3, data=2).write(Path("corpus") / f"job{layers}")
    for line in _MADE:
        assert main(shlex.split(line)) == 0, line
    Path("faulty.et").write_bytes(Path("step.0.et").read_bytes()[:-3])
