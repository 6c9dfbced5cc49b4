"""Mistakes at the prompt: one line with what is wrong, where, and how to mend it; exit code 2."""

from __future__ import annotations

import json
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from astranb.chakra import TraceBuilder, write
from astranb.cli import main
from tests.cli.schema_commands import JOBS, SWEEP
from tests.workload.astrasim1.test_files import NETWORK, SYSTEM, TABLE

_LONGEST_S = 60
"""A command that takes longer hangs."""
COLLECTIVE = "run collective all_reduce --infra ring:gpus=4 --size 1KiB"
BROADCAST = "run collective broadcast --infra ring:gpus=4 --size 1KiB"
DISPATCH = "run exchange dispatch --infra dgx-h800"
MODEL = "run model gpt3-125m"
TRACE = "run trace step --system system.json --network network.yml"
TABLE_RUN = "run trace w.txt --system s.txt --network n.json"
RECORD = "traffic record collective all_reduce --infra ring:gpus=4 --size 1KiB"
EXPANDED = f"{MODEL} --expanded-memory '480 GB, 500 GB/s, 500 ns'"
SERVE = "serve --model llama3-8b --requests closed:users=2,prompt=10,output=10,count=4"

MISTAKES = {
    # Commands and options.
    "rnu": "unknown command 'rnu'; did you mean 'run'?",
    "fly": "unknown command 'fly'; known: chakra, collective, explore",
    "run": "run: WHAT is missing; give one of collective, exchange, model, trace, jobs",
    "run ''": "run: unknown command ''; known: collective",
    "run colective all_reduce": "run: unknown command 'colective'; did you mean 'collective'?",
    "collective": "collective: VERB is missing; give one of list, import, export",
    "infra shwo dgx-h100": "infra: unknown command 'shwo'; did you mean 'show'?",
    "schema rnu": "schema: unknown command 'rnu'; did you mean 'run'?",
    "schema run modle": "schema: unknown command 'run modle'; did you mean 'run model'",
    "verify all_reduce": "unknown command 'verify'; there is astranb collective verify; known: ",
    "record model gpt3-125m": "there is astranb traffic record; known: ",
    "show dgx-h100": "there is astranb traffic show, astranb infra show, astranb collective show; known: ",
    "traffic recrod model": "traffic: unknown command 'recrod'; did you mean 'record'?",
    "traffic record": "traffic record: WHAT is missing; give one of collective, model, trace, jobs, profile",
    "traffic record exchange dispatch": "traffic record: unknown command 'exchange'; there is astranb run ex",
    "traffic record colective x": "traffic record: unknown command 'colective'; did you mean 'collective'?",
    "chakra inof step.0.et": "chakra: unknown command 'inof'; did you mean 'info'?",
    "chakra stats step": "chakra: unknown command 'stats'; did you mean 'statistics'?",
    "infra delete dgx-h100": "infra: unknown command 'delete'; known: check, convert, draw, list, show",
    "gpu lst": "gpu: unknown command 'lst'; did you mean 'list'",
    "schema traffic": "unknown command 'traffic'; did you mean 'traffic show'",
    "--verson": "unknown option --verson; did you mean --version?",
    "--infra dgx-h100": "unknown option --infra; it belongs to astranb run collective, ",
    "run --help=al": "run: no help about 'al'; did you mean 'all'?",
    f"{MODEL} --help=costs": "run model: no help about 'costs'; did you mean 'cost'?",
    f"{COLLECTIVE} --sise 3": "run collective: unknown option --sise; did you mean --size?",
    f"{COLLECTIVE} -x": "run collective: unknown option -x; see astranb run collective --help",
    f"{COLLECTIVE} --tokens 4": "unknown option --tokens; it belongs to astranb run exchange\n",
    f"{COLLECTIVE} --tp 4": "unknown option --tp; it belongs to astranb run model\n",
    f"{MODEL} --tokens 4": "unknown option --tokens; write --output-tokens (decode: tokens to generate)",
    f"{MODEL} --tensor 4": "unknown option --tensor; write --tp (parts of each matrix",
    f"{DISPATCH} --precision fp8": "unknown option --precision; write --token-precision (nvfp4, fp8 or bf16)",
    "explore SWEEP.yml --tp 4": "unknown option --tp; it belongs to astranb run model, astranb serve, ",
    "mcp --json": "mcp: unknown option --json; it belongs to astranb run collective, astranb run exchange, ",
    "traffic record model gpt3-125m --html x.html": "it belongs to astranb run model, ",
    f"{COLLECTIVE} --json=yes": "run collective: --json: it takes no value, not 'yes'",
    f"{COLLECTIVE} extra": "run collective: unexpected 'extra'",
    f"{COLLECTIVE} --html": "run collective: --html: its value is missing",
    f"{MODEL} --recompute full": "run model: --recompute takes its value after =; write --recompute=full",
    "run model --recompute full gpt3-125m": "write --recompute=full",
    f"{COLLECTIVE} --roce pfc": "write --roce=pfc",
    "run trace --rendezvous-protocol true step": "write --rendezvous-protocol=true",
    "chakra draw step.0.et -o x.html --by foo": "unknown value of --by 'foo'; known: callers, names",
    "explore SWEEP.yml --workers 2 --scheduler tcp://x": "--scheduler and --workers exclude each other",
    "traffic profile gpt3-125m": "traffic profile: unexpected 'gpt3-125m'; write --model gpt3-125m",
    "chakra generate gpt3-125m -o x": "chakra generate: unexpected 'gpt3-125m'; write --model gpt3-125m",
    "infra show dgx-h100 dgx-a100": "infra show: unexpected 'dgx-a100'; see astranb infra show --help",
    "infra show dgx-h100 --gpu a100": "unknown option --gpu; it belongs to astranb infra convert",
    "chakra json step.0.et step.1.et": "chakra json: unexpected 'step.1.et'; see astranb chakra json --help",
    "traffic show job.goal --figur x.html": "traffic show: unknown option --figur; did you mean --figure?",
    "explore SWEEP.yml --out x": "explore: unknown option --out; did you mean --output?",
    f"{SERVE} --dp 2": "serve: unknown option --dp; it belongs to astranb run model, ",
    f"{SERVE} --fidelity congestion": "serve: unknown option --fidelity; it belongs to astranb run collectiv",
    f"{SERVE} --no-chunked-prefil": "did you mean --no-chunked-prefill",
    f"{SERVE} --help=kernel": "serve: no help about 'kernel'; did you mean 'kernels'?",
    "traffic profile --help=troch": "traffic profile: no help about 'troch'; did you mean 'torch'?",
    "lab --foo": "lab: unknown option '--foo'; see astranb lab --help",
    "lab --port": "lab: --port: its value is missing; write --port=VALUE",
    "lab --port=abc": "lab: The 'port' trait of a ServerApp instance expected an int, not the str 'abc'; see",
    "lab --notebook-dir=nowhere": "lab: No such directory: ",
    "lab nothing.ipynb": "nothing.ipynb: no such notebook; leave it out to open the tour",
    # Options without an effect.
    f"{COLLECTIVE} --root-rank 2": "--root-rank: all_reduce has no root; leave it out; collectives with a ro",
    "collective verify all_reduce --ranks 4 --root-rank 2": "--root-rank: all_reduce has no root",
    "collective synthesize --infra ring:gpus=4 --collective all_gather --root-rank 2": "all_gather has no ro",
    f"{RECORD} --root-rank 2 -o x.parquet": "--root-rank: all_reduce has no root; leave it out",
    f"{RECORD} --buffers 8 -o x.parquet": "--buffers does not apply to a collective at --fidelity analytical",
    f"{MODEL} --dispatch-node 2": "--dispatch-node: gpt3-125m has no experts; leave it out, or give --expert",
    f"{MODEL} --update host": "--update: the optimizer is not offloaded; leave it out, or give --offload opt",
    f"{MODEL} --mode decode --gradient-bytes 4": "--gradient-bytes: decode has no gradients; leave it out",
    "run model dlrm --seq 128": "--seq: dlrm has no sequences; leave it out",
    "collective synthesize --infra ring:gpus=4 --collective all_gather --exact --seed 3": "apply to --exact",
    "traffic record model gpt3-125m --dispatch-node 2 -o x.parquet": "--dispatch-node: gpt3-125m has no expe",
    "traffic record model gpt3-125m --price 2 -o x.parquet": "unknown option --price; it belongs to astranb",
    "traffic profile --model gpt3-125m --update host": "--update: the optimizer is not offloaded",
    "chakra generate --model gpt3-125m --dispatch-node 2 -o x": "--dispatch-node: gpt3-125m has no experts",
    "chakra generate --model gpt3-125m --npus 4 -o x": "--npus does not apply to --model; leave it out",
    "chakra generate --model gpt3-125m --case-duration 5 -o x": "--case-duration does not apply to --model",
    "chakra generate --case one_comp_node --tp 2 -o x": "--tp does not apply to --case; leave it out",
    "chakra generate --case one_comp_node --model gpt3-125m -o x": "--model and --case exclude each other",
    "collective export all_reduce --ranks 4 --infra dgx-h100 -o x.json": "--infra and --ranks exclude each",
    "collective export all_reduce --ranks 4 --down x -o x.json": "collective export: --down needs --infra",
    "collective verify all_reduce --down 'gpu[0]->gpu[1]'": "collective verify: --down needs --infra",
    "collective verify all_gather --infra ring:gpus=4 --down 'gpu[0]->gpu[9]'": "--down: unknown gpu[9]; ran",
    "traffic show job.goal --dark": "there are no plots to be dark",
    "gpu from timings.csv --like h100-sxm --infra dgx-h100": "--infra: timings of kernels cross no links",
    # Names.
    "chakra info stp": "stp: no trace stp.RANK.et; did you mean 'step'?",
    "chakra json step": "step: it is the prefix of 4 traces; name one: step.0.et",
    "chakra info ''": "the name of the file is empty",
    "chakra generate --case one_comp_node -o ''": "chakra generate: -o/--output: the name is empty",
    "gpu from timings.csv --like h100-sxm --name ''": "gpu from: --name: the name is empty",
    f"{COLLECTIVE} --html ''": "run collective: --html: the name is empty",
    f"{COLLECTIVE} --algorithm ring.py": "ring.py: it names no function; write FILE.py:FUNCTION",
    "traffic profile --torch train.py": "train.py: it names no function; write FILE.py:FUNCTION",
    "traffic show jobs.goal": "jobs.goal: No such file or directory; did you mean 'job.goal'",
    "traffic translate job.goal --to ns4": "--to: unknown target 'ns4'; did you mean 'ns3'",
    "infra convert dgx-h100 --to ns4": "--to: unknown topology format 'ns4'; did you mean 'ns3'?",
    "serve --model llama3-8 --requests poisson": "--model: unknown model 'llama3-8'; did you mean 'llama3-8b",
    "serve --model llama3-8b --requests poison:rate=4": "unknown requests 'poison:rate=4'; did you mean 'poi",
    "gpu show H100-SXM": "unknown GPU 'H100-SXM'; did you mean 'h100-sxm'",
    "gpu fit list.json --infra dgx-h100 --collective allreduce": "unknown collective 'allreduce'; did you me",
    "collective export all_redcue --ranks 4 -o x.json": "unknown collective 'all_redcue'; did you mean 'all_",
    "run collective all_redcue --infra dgx-h100 --size 1MiB": "did you mean 'all_reduce' or 'reduce'?",
    "run collective dispatch --infra dgx-h800": "write: astranb run exchange dispatch",
    "run exchange dispached --infra dgx-h800": "unknown exchange 'dispached'; did you mean 'dispatch'?",
    f"{COLLECTIVE} --algorithm rign": "all_reduce has no algorithm 'rign'; did you mean 'ring'?",
    f"{COLLECTIVE} --algorithm ''": "--algorithm: the name is empty",
    f"{COLLECTIVE} --protocol LL256": "--protocol: unknown protocol 'LL256'; did you mean 'LL128'?",
    f"{COLLECTIVE} --library ncll": "--library: unknown library 'ncll'; did you mean 'nccl'?",
    f"{COLLECTIVE} --gpu h100-smx": "unknown GPU 'h100-smx'; did you mean 'h100-sxm'",
    f"{COLLECTIVE} --gpu ''": "unknown GPU ''; known: a100-sxm",
    f"{COLLECTIVE} --arbitration lifo": "--arbitration: unknown arbitration 'lifo'; did you mean 'fifo'?",
    f"{COLLECTIVE} --multipath all": "--multipath: unknown multipath 'all'; known: flow_hash",
    f"{COLLECTIVE} --roce=foo": "--roce: unknown option 'foo'; known: dcqcn, ecn, pfc",
    f"{COLLECTIVE} --fidelity exact": "--fidelity: unknown fidelity 'exact'; known: analytical, cacheline",
    f"{COLLECTIVE} --down x": "--down: unknown object 'x'; ",
    f"{DISPATCH} --tokens 8 --fidelity congestion": "by cache lines only, not 'congestion'; leave it out",
    f"{DISPATCH} --tokens 8 --algorithm fast": "--algorithm: dispatch has no algorithm 'fast'; known: low_",
    f"{DISPATCH} --tokens 8 --token-precision fp4": "--token-precision: unknown precision 'fp4'; use nvfp4,",
    "run model gpt3-125": "unknown model 'gpt3-125'; did you mean 'gpt3-125m'",
    "run model ''": "unknown model ''; known: deepseek-r1",
    f"{MODEL} --mode trainning": "--mode: unknown mode 'trainning'; did you mean 'training'?",
    f"{MODEL} --recompute=never": "--recompute: unknown recompute 'never'; known: full, none, ops, selective",
    f"{MODEL} --framework torch": "--framework: unknown library 'torch'; did you mean 'pytorch'?",
    f"{MODEL} --cache-precision int8": "--cache-precision: unknown precision 'int8'; known: bf16, fp8",
    f"{MODEL} --precision fp4": "--precision: h100-sxm does not compute in fp4; did you mean 'fp8'?",
    f"{MODEL} --gpu H-100": "--gpu: no GPU 'H-100' for a model; known: a100-sxm",
    f"{EXPANDED} --expanded-streaming fast": "--expanded-streaming: unknown streaming 'fast'; known: ",
    "collective verify all_reduce --protocol LL256": "--protocol: unknown protocol 'LL256'; did you mean",
    "gpu from timings.csv --like nothing": "--like: no GPU 'nothing' for a model; known: ",
    "chakra synthesize . -o x --method gpt": "unknown value of --method 'gpt'; known: network, statistical",
    "chakra scale step -o x --traced dp=2,xp=4 --dp 4": "--traced: no degree 'xp=4'; write dp=2,tp=4,pp=2",
    "traffic translate job.goal --to gaol": "--to: unknown target 'gaol'; did you mean 'goal'?",
    "traffic translate job.goal --to goal --set unit=1": "--set: goal has no option 'unit'; did you mean",
    "traffic translate job.goal --to goal --infra dgx-h100": "--infra: goal files have no network; leave",
    "traffic translate job.goal --to goal --set unit": "--set: 'unit' is no option; write NAME=VALUE",
    "traffic translate job.goal --to pcap --set mtu=many": "--set mtu: cannot read size 'many'; write for",
    "traffic record model gpt3-125m -o x.parquet --use al_reduce=ring": "--use: no collective 'al_reduce'",
    f"{SERVE} --launch never": "--launch: unknown launch 'never'; known: graph, none, stream",
    # Blueprints.
    "run collective all_reduce --infra dgx-h10 --size 1": "'dgx-h10' is neither a file nor a blueprint; did",
    "infra show clos:server=4": "server is a name, not a number; did you mean servers=4?",
    "infra show clos:servers=four": "servers: 'four' is not a whole number from 1 to 16384",
    "infra show clos:servers=-4": "servers: '-4' is not a whole number",
    "infra show clos:servers": "servers has no value; write key=value",
    "infra show clos:servers=4,servers=5": "duplicate parameter servers",
    "infra convert dgx-h100": "infra convert: 'dgx-h100' is a blueprint; name the format to write: --to",
    # Numbers and units.
    f"{COLLECTIVE} --channels 0": "run collective: --channels: 0 is out of range; use 1 to 1,024",
    f"{COLLECTIVE} --channels 1.5": "--channels: '1.5' is not a whole number",
    f"{COLLECTIVE} --channels {'9' * 23}": "is out of range; use 1 to 1,024",
    f"{COLLECTIVE} --buffers -3": "--buffers: -3 is out of range; use 0 or more",
    f"{COLLECTIVE} --coalesce 99": "--coalesce: 99 lines; take 1 to 64",
    f"{COLLECTIVE} --launch 'stream +'": "--launch: 'stream +' has no time after +; write it as 'stream",
    f"{COLLECTIVE} --start 3": "--start: '3' is not RANK@TIME; write it as 3@20us",
    f"{COLLECTIVE} --start 9@5us": "--start: unknown rank 9; there are ranks 0 to 3",
    f"{COLLECTIVE} --start 1@5": "time '5' has no unit; write for example '500 ns'",
    f"{COLLECTIVE} --start 1@5MB": "unknown time unit 'MB' in '5MB'; known: ms, ns",
    f"{COLLECTIVE} --fail gpu[0]": "--fail: 'gpu[0]' has no time; write LINK@TIME",
    f"{COLLECTIVE} --param slices": "--param: 'slices' is not a parameter with its value; write slices=16",
    f"{BROADCAST} --root-rank 99": "--root-rank: root 99 is not a rank; ranks are 0 to 3",
    "run collective all_reduce --infra ring:gpus=4 --size 1MX": "--size: unknown size unit 'MX' in '1MX'",
    "run collective all_reduce --infra ring:gpus=4 --size '5 us'": "--size: unknown size unit 'us'",
    "run collective all_reduce --infra ring:gpus=4 --size -1MiB": "--size: size must not be negative",
    "run collective all_reduce --infra ring:gpus=4 --size 1e400": "--size: size '1e400' is larger than 2**63",
    "run collective all_reduce --infra ring:gpus=4 --size nan": "--size: cannot read size 'nan'; write for",
    f"{DISPATCH} --tokens 0": "--tokens: 0 is out of range; use 1 or more",
    f"{DISPATCH} --tokens 8 --topk 99 --experts 16": "--topk: a token cannot go to 99 of 16 experts; from 1",
    f"{DISPATCH} --tokens 8 --expert-groups 99": "--expert-groups: 99 groups are out of range",
    f"{DISPATCH} --tokens 8 --skew nan": "--skew: skew must be from 0 to 10, got nan",
    f"{MODEL} --tp two": "run model: --tp: 'two' is not a whole number",
    f"{MODEL} --pp 99": "--pp: 99 stages and chunks, but only 12 layers; take at most 12",
    f"{MODEL} --ep 4": "--ep: expert parallelism 4 does not divide data parallelism 1",
    f"{MODEL} --seq 99999999": "--seq: 99999999 is out of range; use 1 to 1,048,576",
    f"{MODEL} --experts 8 --topk 9": "a token cannot go to 9 of 8 experts; take top_k (--topk) from 1 to 8",
    f"{MODEL} --expert-capacity 1 --expert-imbalance 2": "leave --expert-imbalance and --dispatch-node out",
    f"{MODEL} --output-tokens 4": "--output-tokens: training generates no tokens; leave it out, or give",
    f"{MODEL} --sp": "sequence parallelism needs tensor parallelism; take a tensor degree above 1",
    f"{MODEL} --price free": "--price: 'free' is not a number",
    f"{MODEL} --memory-limit 64": "GPU memory: a rank of stage 0 needs 5.4 GB of the 64 B of h100-sxm",
    f"{MODEL} --memory-limit 64XB": "--memory-limit: unknown size unit 'XB' in '64XB'; did you mean 'B'?",
    f"{MODEL} --expanded-memory '480 GB'": "--expanded-memory: '480 GB' is not a capacity, a bandwidth and a",
    f"{MODEL} --efficiency 2": "--efficiency: unknown efficiency '2'; known: ideal, kernels (or 0.01 to 1)",
    f"{TABLE_RUN} --num-passes 0": "--num-passes: 0 is out of range; use 1 or more",
    f"{TABLE_RUN} --units-count two": "--units-count: 'two' is not a whole number",
    f"{SERVE} --watermark no": "serve: --watermark: 'no' is not a number",
    f"{SERVE} --host-time 5": "--host-time: time '5' has no unit; write for example '500 ns'",
    f"{SERVE} --disaggregate 9999:1": "--disaggregate: 9999 is out of range; take 0 to 1024",
    "serve --model llama3-8b --requests poisson:rat=4": "--requests: poisson has no 'rat=4'; did you mean",
    "explore SWEEP.yml --time-limit 25": "--time-limit: time '25' has no unit",
    "mcp --time-limit 0s": "--time-limit: 0 s is out of range; take more than 0",
    "mcp --memory-limit much": "--memory-limit: cannot read size 'much'",
    "chakra synthesize . -o x --model-size -1": "--model-size: -1 is out of range; use a number above 0",
    "chakra synthesize . -o x --seed -1": "--seed: -1 is out of range; use 0 or more",
    "chakra generate --case one_comp_node --case-message 4XB -o x": "--case-message: unknown size unit 'XB'",
    "chakra draw step.0.et -o x.svg --skip 99999": "--skip: the trace has 1 node; use a smaller one",
    "explore SWEEP.yml --time-limit 0s": "--time-limit: 0 s is out of range; take more than 0",
    "explore SWEEP.yml --workers -1": "explore: --workers: -1 is out of range; use 0 to 1,024",
    "chakra scale step -o x --ranks 0": "chakra scale: --ranks: 0 is out of range; use 1 to 1,048,576",
    "chakra synthesize step -o x --ranks 3 --tp 2": "--ranks: 3 ranks, but tensor, data, pipeline 2, 1, 1; ",
    f"{SERVE} --memory-fraction 2": "--memory-fraction: 2.0 is out of range; take 0.05 to 1",
    f"{SERVE} --disaggregate 1": "--disaggregate: '1' is not P:D; write 1:3",
    # Missing and contradictory options.
    f"{RECORD.removesuffix(' --size 1KiB')} -o x.parquet": "traffic record collective: --size is missing; se",
    "traffic record trace step -o x.parquet": "traffic record trace: --system is missing; give --system FILE",
    RECORD: "traffic record: nothing to write; give -o FILE.parquet or --chakra PREFIX",
    "chakra compare step step --second-system system.json": "chakra compare: --second-network is missing; --",
    "chakra statistics step --system system.json": "chakra statistics: --network is missing; --system and --",
    "run collective all_reduce": "run collective: --infra and --size are missing",
    "run exchange dispatch": "run exchange: --infra and --tokens are missing",
    DISPATCH: "run exchange: --tokens is missing",
    "run trace": "run trace: the workload is missing: traces PREFIX.RANK.et, or a layer table",
    "run jobs": "run jobs: FILE.yaml is missing",
    "run trace step": "run trace: --system is missing; give --system FILE",
    "infra show": "infra show: FILE is missing",
    "gpu fit": "gpu fit: LOG and --infra are missing",
    "serve": "serve: --requests and --model are missing",
    "chakra convert step.0.et": "chakra convert: --output is missing",
    "chakra generate": "chakra generate: --model and --output are missing",
    "traffic translate": "traffic translate: FILE and --to are missing; --list names the targets",
    "traffic replay job.goal": "traffic replay: the network is missing; give --infra, or --network FILE",
    "traffic replay job.goal --infra ring:gpus=2 --network network.yml": "--infra and --network exclude each",
    "traffic profile": "traffic profile: nothing to profile; give one of --model, --torch, --traces",
    "traffic profile --model gpt3-125m --torch x.py:f": "--model and --torch exclude each other",
    "traffic profile --model gpt3-125m --bucket 25MiB": "--bucket does not apply to --model; leave it out",
    "collective verify all_reduce --infra dgx-h100 --ranks 4": "--infra and --ranks exclude each other",
    "collective synthesize --infra ring:gpus=4 --collective x --condition y": "exclude each other",
    f"{COLLECTIVE} --live": "run collective: --live needs --html",
    f"{COLLECTIVE} --reroute 1us": "run collective: --reroute needs --fail",
    f"{COLLECTIVE} --library nccl --algorithm ring": "--library and --algorithm exclude each other",
    f"{MODEL} --dimensions 8": "run model: --dimensions needs --infra",
    f"{MODEL} --expanded-shared node": "run model: --expanded-shared needs --expanded-memory",
    f"{MODEL} --suggest --explain": "run model: --explain does not apply to a search of plans",
    f"{TRACE} --num-passes 2": "run trace: --num-passes does not apply to ASTRA-sim 2.0 files",
    f"{TRACE} --infra dgx-h100": "run trace: --infra and --network exclude each other",
    "explore SWEEP.yml --retry": "explore: --retry needs --output; name the folder",
    "chakra generate --model gpt3-125m --kernels timings.csv -o x": "chakra generate: --kernels needs --gpu",
    # Files to read: missing, empty, a folder, broken, of another format.
    "run collective all_reduce --infra nowhere.yaml --size 1": "nowhere.yaml: No such file or directory",
    "run collective all_reduce --infra sytem.json --size 1": "did you mean 'system.json'",
    "run collective all_reduce --infra adir --size 1": "adir: this is a folder; name the file in it",
    "run collective all_reduce --infra empty.json --size 1": "empty.json: the file is empty",
    "run collective all_reduce --infra broken.json --size 1": "broken.json:1: not JSON: Expecting value",
    "run collective all_reduce --infra binary.json --size 1": "binary.json: not JSON: byte 128 is not UTF-8",
    "run collective all_reduce --infra list.json --size 1": "list.json:1: an infrastructure is a mapping",
    f"{COLLECTIVE} --algorithm none.py:f": "none.py: No such file or directory; give FILE.py:FUNCTION",
    f"{COLLECTIVE} --algorithm broken.json": "broken.json:1: not JSON",
    "run model list.json": "list.json:1: a model must be a mapping of names to values",
    f"{MODEL} --kernels list.json": "list.json: the columns are",
    f"{MODEL} --system list.json": "list.json:1: an object is expected, not a list",
    "run trace nothing": "nothing: no trace nothing.RANK.et",
    "run trace stp": "stp: no trace stp.RANK.et; did you mean 'step'?",
    "run trace step.0.et": "step.0.et: no trace step.0.et.RANK.et; give the prefix 'step'",
    "run trace adir": "adir: no trace adir.RANK.et; name traces in the folder: adir/PREFIX",
    "run trace none.txt": "none.txt: No such file or directory",
    "run trace list.json --system s.txt --network n.json": "list.json: ",
    f"{TRACE} --comm-group list.json": "list.json:1: an object is expected, not a list; as {",
    "run trace step --system network.yml --network system.json": "system.json: this is a system of ASTRA-sim",
    "run jobs list.json": "list.json:1: a mapping is expected, not a list",
    "run jobs SWEEP.yml": "SWEEP.yml:1, run: unknown key 'run'; known: infra, jobs, variation",
    "explore jobs.yaml": "jobs.yaml:1, infra: unknown key 'infra'",
    "serve --model llama3-8b --requests empty.csv": "empty.csv, line 1: no column arrival_s",
    f"{DISPATCH} --routing empty.csv": "empty.csv: the file holds no numbers",
    "collective import w.txt": "w.txt: this is a layer table of ASTRA-sim 1.0; run it with",
    "gpu show list.json": "list.json:1: an object is expected, not a list",
    "chakra info system.json": "system.json: this is a system of ASTRA-sim 2.0; give it as --system of 'as",
    "chakra json empty.csv": "empty.csv: empty; give a Chakra trace",
    "chakra scale nothing -o x --dp 4": "nothing: no trace nothing.RANK.et",
    "traffic show adir": "adir: this is a folder; name the file in it",
    "traffic record profile list.json -o x.parquet": "list.json: this is not a profile of astranb; make one",
    # Files to write.
    f"{COLLECTIVE} --html adir": "adir: cannot be written: it is a folder",
    f"{COLLECTIVE} --save nodir/x": "nodir/x: cannot be written: No such file or directory",
    f"{COLLECTIVE} --svg x.png": "run collective: --svg: 'x.png' has another ending; use .svg",
    f"{COLLECTIVE} --perfetto x.txt": "--perfetto: 'x.txt' has another ending; use .json or .json.gz",
    f"{MODEL} --memory-svg x": "--memory-svg: 'x' has another ending; use .svg",
    "collective export all_reduce --ranks 4 -o x.txt": "x.txt: unknown file extension '.txt'; use FILE.json",
    "infra draw dgx-h100 -o x.png": "x.png: unknown file extension '.png'; use .svg or .html",
    f"{RECORD} -o x.txt": "-o/--output: 'x.txt' has another ending; use .parquet",
    "traffic show job.goal --figure x.png": "--figure: 'x.png' has another ending; use .html or .htm",
    "traffic profile --model gpt3-125m -o x.txt": "-o/--output: 'x.txt' has another ending; use .json",
    "collective verify all_reduce --picture x.png": "--picture: 'x.png' has another ending; use .svg",
    "explore SWEEP.yml --html nodir/x.html": "nodir/x.html: cannot be written: No such file or directory",
    "explore SWEEP.yml --html adir": "--html: 'adir' has another ending; use .html or .htm",
    "chakra generate --case one_comp_node -o jobs.yaml": "jobs.yaml: File exists; name a folder that can be",
    "chakra timeline step -o x.foo": "x.foo: unknown file extension '.foo'; use FILE.json",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files of some kinds, and with what is none of them."""
    made: Path = tmp_path_factory.mktemp("mistakes")
    step = TraceBuilder()
    step.collective("all_reduce", 1 << 20)
    for rank in range(4):
        write(step.build(), made / f"step.{rank}.et")
    texts = {
        "system.json": json.dumps({"all-reduce-implementation": ["ring"]}),
        "network.yml": "topology: [Ring]\nnpus_count: [4]\nbandwidth: [50]\nlatency: [500]\n",
        "w.txt": TABLE,
        "s.txt": SYSTEM,
        "n.json": json.dumps(NETWORK),
        "jobs.yaml": JOBS,
        "SWEEP.yml": SWEEP,
        "timings.csv": "gpu,kernel,precision,shape,ns\nmine,gemm,bf16,m=4096 n=4096 k=4096,200000\n",
        "job.goal": "num_ranks 2\nrank 0 {\nl1: send 8b to 1\n}\nrank 1 {\nl1: recv 8b from 0\n}\n",
        "empty.json": "",
        "empty.csv": "",
        "broken.json": '{"a": [1, 2,',
        "list.json": "[1, 2, 3]",
    }
    for name, text in texts.items():
        (made / name).write_text(text)
    (made / "binary.json").write_bytes(bytes(range(256)))
    (made / "adir").mkdir()
    return made


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    """Fail a command that hangs."""

    def late(*_: object) -> NoReturn:
        pytest.fail(f"not done after {_LONGEST_S} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(_LONGEST_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("typed", MISTAKES)
def test_a_mistake_is_answered_in_one_line(
    typed: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    code = main(shlex.split(typed))
    out, error = capsys.readouterr()
    assert (code, out) == (2, "")
    assert error.startswith("astranb: ")
    assert error.count("\n") == 1
    assert MISTAKES[typed] in error
