"""Specification of a sweep: axes, names, and one line for what cannot be meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from astranb.core.errors import InputError
from astranb.explore import Sweep

RUN = {"infra": "switch:gpus=4", "collective": "all_reduce", "fidelity": "analytical", "size": "1 MiB"}


def sweep(**more: Any) -> Sweep:
    return Sweep.of({"run": RUN, "axes": {"algorithm": ["ring"]}, **more})


@pytest.mark.parametrize(
    "given, values",
    [
        ("1..64 by x2", [1, 2, 4, 8, 16, 32, 64]),
        ("1..4", [1, 2, 3, 4]),
        ("0.5..1.5 by 0.5", [0.5, 1.0, 1.5]),
        ("100 GB/s..300 GB/s by 100 GB/s", ["100000000000 B/s", "200000000000 B/s", "300000000000 B/s"]),
        ("1 MiB..4 MiB by x2", ["1048576 B", "2097152 B", "4194304 B"]),
        ("1 us..3 us by 1 us", ["1000000 ps", "2000000 ps", "3000000 ps"]),
        ([1, "4..6"], [1, 4, 5, 6]),
        ("ring", ["ring"]),
    ],
)
def test_values_of_an_axis(given: Any, values: list[Any]) -> None:
    (axis,) = sweep(axes={"skew": given}).spec.axes
    assert list(axis.values) == values


def test_an_option_that_takes_several_values_has_lists_of_them() -> None:
    down, case = sweep(axes={"down": [[], "A", ["A->B", "C"]], "case": [{"fail": ["A@1us"]}]}).spec.axes
    assert down.values == ((), "A", ("A->B", "C"))
    assert case.values == ({"fail": ("A@1us",)},)


@pytest.mark.parametrize(
    "more, error",
    [
        ({"axes": {"tpp": [1]}}, r"unknown axis 'tpp'; did you mean .*'tp'"),
        ({"axes": {"plan": [{"tp": 1, "dpp": 2}]}}, r"unknown axis 'dpp'; did you mean .*'dp'"),
        ({"axes": {"tp": []}}, "an axis without values: the grid is empty"),
        ({"axes": {}}, "axes are names with values"),
        ({"axes": {"tp": "8..1"}}, "'8..1' has no values, or no end"),
        ({"axes": {"tp": "1..8 by 0"}}, "has no values, or no end"),
        ({"axes": {"tp": "1..1e9"}}, "more than 100,000 values"),
        ({"axes": {"tp": [{"tp": 1}, 2]}}, "some values are mappings"),
        ({"axes": {"tp": [[1, 2]]}}, "no value of an axis"),
        ({"axes": {"down": [[["A"]]]}}, "no value of an axis"),
        ({"axes": {"case": [{"size": ["1 MiB"]}]}}, "no value of an axis"),
        ({"axes": {"tp": [1], "plan": [{"tp": 2}]}}, "two axes set 'tp'"),
        ({"axes": {"size": ["{servers} MiB"]}}, "no axis gives {servers}"),
        ({"run": {"modell": "x"}}, r"unknown option 'modell'; did you mean 'model'"),
        ({"run": {"html": "x"}}, "unknown option 'html'"),
        ({"constraint": []}, r"unknown key 'constraint'; did you mean 'constraints'\?"),
        ({"constraints": ["import os"]}, "this is not an expression"),
        ({"objectives": {"time_ps": "least"}}, "take min, max"),
        ({"objectives": {}}, "objectives are figures"),
        ({"search": {"kind": "random"}}, "'n' is missing"),
        ({"search": {"kind": "grid", "n": 3}}, "a grid has no n"),
        ({"search": {"kind": "latin", "n": 3, "sampler": "tpe"}}, "latin has no sampler"),
        ({"search": {"kind": "annealing"}}, "take grid, random, latin, optuna"),
        ({"fidelity": "exact"}, "take estimate, analytical, congestion, cacheline"),
        ({"stages": [{"fidelity": "analytical"}], "fidelity": "analytical"}, "stages have fidelities"),
        ({"stages": [{"fidelity": "analytical", "keep": 2}]}, "the first stage runs all points"),
        ({"stages": [{"fidelity": "analytical"}, {"fidelity": "congestion"}]}, "'keep' is missing"),
        ({"stages": []}, "no stages"),
        ({"axes": {"skew": "0..99999", "seed": "0..99999"}}, "a grid of 10,000,000,000 points"),
    ],
)
def test_what_cannot_be_meant_is_one_line(more: dict[str, Any], error: str) -> None:
    with pytest.raises(InputError, match=error) as caught:
        sweep(**more)
    assert "\n" not in str(caught.value)


def test_constraints_that_contradict_each_other() -> None:
    found = sweep(axes={"seed": "1..9"}, constraints=["seed > 4", "seed * 2 < 9"])
    with pytest.raises(InputError, match=r"no point of 9 satisfies seed > 4 and seed \* 2 < 9"):
        found.points()


def test_a_file_gives_the_line_and_its_own_folder(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("x")
    file = tmp_path / "sweep.yml"
    file.write_text("run:\n  infra: one.yaml\naxes:\n  size: [1 MiB]\n  sizee: [2]\n")
    with pytest.raises(InputError, match=r"sweep.yml:5, axes.sizee: unknown axis 'sizee'"):
        Sweep.of(file)
    file.write_text("run:\n  infra: one.yaml\naxes:\n  size: [1 MiB]\n")
    assert Sweep.of(file).spec.run["infra"] == str(tmp_path / "one.yaml")


def test_names_in_braces_are_filled_in() -> None:
    found = sweep(run={**RUN, "infra": "switch:gpus={gpus}"}, axes={"gpus": [2, 8], "size": ["{gpus} MiB"]})
    words = [point.words for point in found.points()]
    assert [(one["infra"], one["size"]) for one in words] == [
        ("switch:gpus=2", "2 MiB"), ("switch:gpus=8", "8 MiB"),
    ]  # fmt: skip
    assert "gpus" not in words[0]
