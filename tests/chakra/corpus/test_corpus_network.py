"""The network of a corpus: trained, asked, saved and loaded, with PyTorch; refused without it."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING

import pytest

from astranb.chakra.corpus import Corpus, CorpusNetwork, privacy
from astranb.cli import main
from astranb.core.errors import InputError
from astranb.explore import compare_on_clusters, corpus_report

from .test_corpus import consistent, job

if TYPE_CHECKING:
    from pathlib import Path

PLANS = [(2, 1, 1), (1, 2, 1), (1, 2, 2)]
MODELS = [(4, 256), (6, 384), (8, 512)]


def corpus(models: list[tuple[int, int]] = MODELS) -> Corpus:
    """Steps of small GPTs."""
    jobs = [job(*size, *plan, batch) for size, plan, batch in itertools.product(models, PLANS, (8, 16))]
    return Corpus.of(jobs, held_out=0.2)


@pytest.fixture(scope="module")
def network() -> CorpusNetwork:
    pytest.importorskip("torch", reason="PyTorch is an extra of its own: pip install 'astranb[torch]'")
    return CorpusNetwork(corpus().training, epochs=12)


@pytest.mark.parametrize("asked", [{}, {"ranks": 8}, {"tensor": 1, "data": 4, "pipeline": 2, "batch": 16}])
def test_what_a_network_writes_is_consistent(network, asked):
    for seed in range(2):
        made = network.sample(seed=seed, **asked)
        consistent(made)
        assert made.ranks == asked.get("ranks", made.tensor * made.data * made.pipeline)
    assert network.sample(seed=0, **asked).traces == network.sample(seed=0, **asked).traces


def test_nothing_is_verbatim(network):
    found = corpus()
    made = [network.sample(seed=seed) for seed in range(4)]
    said = privacy(found.training, found.held_out, made)
    assert said["verbatim_sizes"] == said["verbatim_names"] == 0


def test_a_network_is_saved_and_loaded(network, tmp_path):
    file = network.save(tmp_path / "net.npz")
    same = CorpusNetwork.load(file)
    assert same.sample(seed=5).traces == network.sample(seed=5).traces
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(InputError, match=r"net\.npz: .*give a file that CorpusNetwork\.save wrote"):
        CorpusNetwork.load(file)
    with pytest.raises(InputError, match="No such file"):
        CorpusNetwork.load(tmp_path / "none.npz")


@pytest.mark.slow
def test_a_trained_network_is_near_held_out_workloads():
    pytest.importorskip("torch", reason="PyTorch is an extra of its own: pip install 'astranb[torch]'")
    found = corpus([*MODELS, (12, 512), (12, 768)])
    report = corpus_report(found, network=True)
    assert max(row["median_pair_off"] for row in report["clusters"]) < 0.1
    assert report["privacy"]["verbatim_sizes"] == 0
    assert report["distances"]["kinds"]["distance"] < 0.05
    assert compare_on_clusters(found.held_out, found.held_out)[0]["worst_pair_off"] == 0


def test_without_pytorch_the_command_that_installs_it_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "astranb.chakra.corpus.gru", raising=False)
    with pytest.raises(InputError, match=r"torch is not installed; run pip install 'astranb\[torch\]'"):
        corpus().fit(network=True)
    job(4, 256, 2, 1, 1, 8).write(tmp_path / "job")
    words = ["chakra", "synthesize", str(tmp_path), "-o", str(tmp_path / "new"), "--method", "network"]
    assert main(words) == 2
    assert "pip install 'astranb[torch]'" in capsys.readouterr().err
