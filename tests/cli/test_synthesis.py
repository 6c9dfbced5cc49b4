"""``astranb collective synthesize``."""

from __future__ import annotations

import json

import pytest

from astranb.cli import main

VERB = ["collective", "synthesize", "--infra", "ring:gpus=4"]


def test_it_says_how_good_the_algorithm_is_and_writes_it(tmp_path, capsys):
    file = tmp_path / "ring.json"
    verb = [*VERB, "--collective", "all_gather", "--size", "8KiB", "--trials", "1", "-o", str(file)]
    assert main([*verb, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["faults"] == []
    assert found["schedule_ps"] >= found["bound_ps"]
    assert found["simulated_ps"] > found["bound_ps"]
    assert found["library"]["time_ps"] > found["bound_ps"]
    assert main(["collective", "verify", "all_gather", "--algorithm", str(file)]) == 0
    assert "correct" in capsys.readouterr().out


def test_a_condition_comes_from_a_file(tmp_path, capsys):
    file = tmp_path / "condition.yaml"
    file.write_text("before: {0: [0, 1]}\nafter: {2: [0], 3: [1]}\n")
    verb = [*VERB, "--condition", str(file), "--size", "8KiB", "--trials", "1"]
    assert main([*verb, "--down", "gpu[0]->gpu[3]", "--schedule-only"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("custom of 4 ranks: ")
    assert "correct at any timing" in out


@pytest.mark.parametrize(
    "options, error",
    [
        ([], "give --collective or --condition"),
        (["--collective", "all_gathr"], "did you mean 'all_gather'"),
        (["--collective", "all_gather", "--down", "x"], "unknown object 'x'"),
        (["--collective", "all_gather", "--exact", "--slices", "100"], "too many for an exact solution"),
    ],
)
def test_bad_options_are_one_line(capsys, options, error):
    assert main([*VERB, *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert error in line


@pytest.mark.parametrize(
    "text, error",
    [
        ("before: [0]\nafter: {1: [0]}\n", "not a mapping of ranks to chunks"),
        ("before: {a: [0]}\nafter: {1: [0]}\n", "'a' is not a rank"),
        ("before: {0: [0]}\n", "'after' is missing"),
        ("before: {0: [0]}\nafter: {1: [3]}\n", "rank 1 needs chunk 3, which no rank has"),
    ],
)
def test_a_condition_that_cannot_be_is_one_line(tmp_path, capsys, text, error):
    file = tmp_path / "condition.yaml"
    file.write_text(text)
    assert main([*VERB, "--condition", str(file)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert error in line
