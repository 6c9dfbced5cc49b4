"""Options of all commands: fields that exist, defaults that are the library's, values that are attached."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

from astranb import chakra, explore, traffic
from astranb.cli import parser
from astranb.cli.options import Group, RunOutputs, add_fields
from astranb.cli.parsing import Parser, leaves
from astranb.core.errors import InputError
from astranb.core.units import size_bytes, time_ps
from astranb.explore.calibration.slow_parts import diagnose
from astranb.explore.runs import RUNS, ModelRun, StepSpec, arguments_of, given, parameter_of
from astranb.explore.runs.model_steps import NETWORK_FIELDS
from astranb.explore.runs.specs import _EFFECTS
from astranb.mcp import Limits
from astranb.workload.astrasim1 import layer_table_trace
from astranb.workload.serving import ServingPolicy

COMMANDS = {one.prog.removeprefix("astranb "): one for one in leaves(parser())}
DEFAULTS: list[tuple[str, str, Callable[..., Any], str, Callable[[str], Any]]] = [
    ("chakra draw", "--most", chakra.draw, "most", int),
    ("chakra draw", "--skip", chakra.draw, "start", int),
    ("chakra convert", "--passes", layer_table_trace, "passes", int),
    ("chakra compare", "--depth", chakra.why_slower, "depth", int),
    ("chakra generate", "--npus", chakra.case, "npus", int),
    ("chakra generate", "--case-duration", chakra.case, "duration_us", lambda text: int(text[:-3])),
    ("chakra generate", "--case-memory", chakra.case, "tensor_size", size_bytes),
    ("chakra generate", "--case-message", chakra.case, "comm_size", size_bytes),
    ("collective synthesize", "--size", explore.synthesize, "size", str),
    ("collective synthesize", "--root-rank", explore.synthesize, "root", int),
    ("collective synthesize", "--trials", explore.synthesize, "trials", int),
    ("collective synthesize", "--seed", explore.synthesize, "seed", int),
    ("explore", "--workers", explore.Sweep.run, "workers", int),
    ("gpu fit", "--up-to", explore.fit_log, "up_to", size_bytes),
    ("gpu diagnose", "--up-to", diagnose, "up_to", size_bytes),
    ("gpu expected", "--lines-to", explore.expected, "lines_to", lambda text: text.replace("MiB", " MiB")),
    ("mcp", "--time-limit", Limits, "seconds", lambda text: time_ps(text) / 1e12),
    ("serve", "--max-batch", ServingPolicy, "max_batch", int),
    ("serve", "--token-budget", ServingPolicy, "token_budget", int),
    ("serve", "--block-size", ServingPolicy, "block_size", int),
    ("serve", "--instances", ServingPolicy, "instances", int),
    ("serve", "--watermark", ServingPolicy, "watermark", float),
    ("serve", "--memory-fraction", ServingPolicy, "memory_fraction", float),
    ("serve", "--host-time", ServingPolicy, "host_ns", lambda text: time_ps(text) // 1000),
    ("serve", "--front-end-time", ServingPolicy, "front_ns", lambda text: time_ps(text) // 1000),
    ("serve", "--chunked-prefill", ServingPolicy, "chunked_prefill", lambda text: text == "yes"),
    ("serve", "--reserve-output", ServingPolicy, "reserve_output", lambda text: text == "yes"),
    ("traffic record model", "--fidelity", traffic.record, "fidelity", str),
]


@pytest.mark.parametrize(
    "command, option, function, name, read", DEFAULTS, ids=lambda one: one if isinstance(one, str) else ""
)
def test_a_help_prints_the_default_of_the_library(
    command: str, option: str, function: Callable[..., Any], name: str, read: Callable[[str], Any]
) -> None:
    """The library has the default: the parser has none."""
    action = COMMANDS[command]._option_string_actions[option]
    found = re.search(r"\(default: ([^)]*)\)$", str(action.help))
    assert found
    default = inspect.signature(function).parameters[name].default
    assert read(found[1]) == (size_bytes(default) if read is size_bytes else default)
    assert action.default is None


def test_only_options_that_belong_to_the_command_line_have_defaults_there() -> None:
    own = {
        (name, action.dest)
        for name, one in COMMANDS.items()
        for action in one._actions
        if action.default not in (None, False, argparse.SUPPRESS) and action.dest != "help"
    }
    assert own == {("chakra statistics", "rows"), ("gpu from", "like")}


def test_a_misspelt_field_is_an_error() -> None:
    made = Parser(prog="astranb x")
    with pytest.raises(KeyError, match="micro_batches"):
        add_fields(made, [StepSpec], "--dp N, --micro-batches N")
    for call in (given, arguments_of):
        with pytest.raises(AttributeError, match="tpp"):
            call(ModelRun("gpt3-125m"), "tp", "tpp")
    with pytest.raises(KeyError, match="tpp"):
        parameter_of(ModelRun, "tpp")


def test_lists_of_fields_name_fields() -> None:
    outputs = {one.name for one in dataclasses.fields(RunOutputs)}
    known = {kind.kind: {one.name for one in dataclasses.fields(kind)} | outputs for kind in RUNS}
    known["ASTRA-sim 1.0 files"] = known["ASTRA-sim 2.0 files"]
    for kind, names in _EFFECTS.items():
        assert names.keys() <= known[kind], kind
    assert {*NETWORK_FIELDS} <= known["a model"]


def test_a_group_without_options() -> None:
    group = Group("cost", "--price X, --energy, --rates FILE", "cost")
    assert group.without({"energy", "rates"}) == Group("cost", "--price X", "cost")
    assert group.without({"energy", "rates", "price"}).options == ""
    assert "files" not in COMMANDS["traffic record model"].topics.values()


def optional(one: Parser) -> list[argparse.Action]:
    """Return the options of a command whose value may be left out."""
    return [action for action in one._actions if action.option_strings and action.nargs == "?"]


@pytest.mark.parametrize("name", [name for name, one in COMMANDS.items() if one.topics])
def test_a_help_writes_values_that_may_be_left_out_after_an_equals_sign(name: str) -> None:
    text = COMMANDS[name].format_help("all")
    for action in optional(COMMANDS[name]):
        assert action.const is not None
        assert action.dest == "help" or f"{action.option_strings[0]}[={action.metavar}]" in text
    assert "shown by --help=TOPIC (--help=all: all):" in COMMANDS[name].format_help()


def test_an_option_that_stands_alone_takes_no_following_word() -> None:
    def parsed(words: str) -> argparse.Namespace:
        found: argparse.Namespace = parser().parse_args(words.split())
        return found

    alone = parsed("run model --recompute gpt3-125m")
    assert (alone.model, alone.recompute) == ("gpt3-125m", "full")
    assert parsed("run model gpt3-125m --recompute=selective").recompute == "selective"
    page = parsed("run collective --live --roce all_reduce --infra x --size 1 --html y.html")
    assert (page.collective, page.live, page.roce) == ("all_reduce", "page", "pfc,ecn,dcqcn")
    assert parsed("run collective all_reduce --roce=pfc").roce == "pfc"
    trace = parsed("run trace --rendezvous-protocol step --system s")
    assert (trace.workload, trace.rendezvous_protocol) == ("step", True)
    assert parsed("run trace step --rendezvous-protocol=false").rendezvous_protocol is False
    assert [action.dest for action in optional(COMMANDS["run collective"])] == ["help", "live", "roce"]


@pytest.mark.parametrize(
    "typed, says",
    [
        ("run collective --help all_reduce", "usage: astranb run collective NAME [options]"),
        ("run collective all_reduce -h --infra x", "usage: astranb run collective NAME [options]"),
        ("run --help=all", "usage: astranb run WHAT ..."),
        ("run --help model", "usage: astranb run WHAT ..."),
        ("--help", "usage: astranb COMMAND ..."),
        ("run model --help=cost", "--price X"),
    ],
)
def test_help(typed: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    from astranb.cli import main

    assert main(typed.split()) == 0
    out, error = capsys.readouterr()
    assert says in out
    assert error == ""


def test_the_fidelity_of_each_kind_has_its_own_default() -> None:
    all_three = "analytical, congestion or cacheline"
    texts = {kind.name: COMMANDS[f"run {kind.name}"]._option_string_actions["--fidelity"] for kind in RUNS}
    assert {name: str(one.help) for name, one in texts.items()} == {
        "collective": f"{all_three} (default: cacheline)",
        "exchange": "cacheline: an exchange has no other",
        **dict.fromkeys(
            ("model", "trace", "jobs"), "analytical, congestion or cacheline (default: analytical)"
        ),
    }


def test_errors_name_options_where_the_library_names_parameters() -> None:
    named = COMMANDS["run model"].named
    one = named(InputError("expert_capacity and top_k", where="tokens", hint="write 'top_k' top_k=2"), {})
    assert str(one) == "--output-tokens: --expert-capacity and --topk; write 'top_k' top_k=2"
    assert str(named(InputError("no", where="run"), {})) == "run model: no"
    assert str(named(InputError("no", where="start"), {"start": "--skip"})) == "--skip: no"
    other = InputError("top_k", where="model.yaml:3")
    assert named(other, {}) is other
