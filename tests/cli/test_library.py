"""``astranb run collective --library``."""

import json

import pytest

import astranb as anb
from astranb.cli import main

RUN = ["run", "collective", "all_reduce", "--infra", "dgx-h100", "--size", "4KiB"]


def test_the_library_chooses_and_explain_says_why(capsys):
    assert main([*RUN, "--library", "nccl", "--explain"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("nccl runs Ring/LL: 1 thread block of 96 threads, chunks of 32 KiB\n")
    assert "least of 7 predicted times: 15.1 us" in text
    assert "Tree/LL128" in text
    assert "all_reduce/ring/LL, 4 KiB, 8 GPUs" in text


def test_the_choice_is_data_and_that_of_python(capsys):
    assert main([*RUN, "--library", "nccl", "--json"]) == 0
    given = json.loads(capsys.readouterr().out)
    choice = anb.collectives.library_choice("dgx-h100", "all_reduce", "4 KiB", library="nccl")
    assert given["choice"]["algorithm"] == choice.algorithm == "Ring"
    assert len(given["choice"]["candidates"]) == len(choice.candidates)
    sim = anb.Simulation("dgx-h100", choice.to_run(), launch=choice.launch)
    sim.run()
    assert given["time_ps"] == sim.result.time_ps
    assert main([*RUN, "--library", "nccl", "--launch", "none", "--json"]) == 0
    kernel_ps = json.loads(capsys.readouterr().out)["time_ps"]
    assert given["time_ps"] - kernel_ps == 6_600_000


def test_without_options_the_machines_own_library_chooses(capsys):
    given = []
    for options in ([], ["--library", "nccl"]):
        assert main([*RUN, *options, "--json"]) == 0
        given.append(json.loads(capsys.readouterr().out))
    assert given[0] == given[1]
    assert given[0]["choice"]["library"] == "nccl"


@pytest.mark.parametrize(
    "options", [["--algorithm", "ring"], ["--protocol", "Simple"], ["--fidelity", "congestion"]]
)
def test_an_algorithm_a_protocol_or_whole_messages_leave_no_choice(options, capsys):
    assert main([*RUN, *options, "--json"]) == 0
    given = json.loads(capsys.readouterr().out)
    assert "choice" not in given
    assert given["algorithm"] == "ring"
    assert given["protocol"] in ("Simple", None)


def test_a_machine_without_a_model_has_the_collectives_default(capsys):
    run = ["run", "collective", "all_reduce", "--infra", "ring:gpus=4", "--size", "1KiB", "--json"]
    assert main(run) == 0
    given = json.loads(capsys.readouterr().out)
    assert ("choice" in given, given["algorithm"], given["protocol"]) == (False, "ring", "Simple")


def test_channels_override_the_librarys(capsys):
    assert main([*RUN, "--library", "nccl", "--channels", "2"]) == 0
    assert "2 channels" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options,says",
    [
        (
            "--library nccl --algorithm ring",
            "run collective: --library and --algorithm exclude each other; leave one of them",
        ),
        ("--library nccl --protocol LL", "run collective: --library and --protocol exclude each other"),
        (
            "--library nccl --fidelity congestion",
            "--library does not apply to a collective at --fidelity cong",
        ),
        ("--library megatron", "library: unknown library 'megatron'"),
        ("--library rccl", "library: rccl does not run on h100-sxm; use nccl"),
        ("--library nccl --gpu mi300x", "library: nccl does not run on mi300x; use rccl"),
    ],
)
def test_what_cannot_be_chosen_is_one_line(options, says, capsys):
    assert main([*RUN, *options.split()]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("astranb: ")
    assert error.count("\n") == 1
    assert says in error
