"""The gallery of algorithms: every page has its pictures, and says what the programs do."""

import re
from math import ceil, log2

import pytest

from astranb.collectives import ALGORITHMS, Collective
from scripts.algorithm_gallery import COMPARED, FOLDER, bytes_sent, hops
from scripts.algorithm_pictures import PICTURES, picture

PAGES = sorted(FOLDER.glob("*.md"))

# Hops and bytes (over the size) for n ranks, as the pages say.
BOUNDS = {
    ("all_reduce", "ring"): (lambda n: 2 * (n - 1), lambda n: 2 * (n - 1) / n),
    ("all_reduce", "bidirectional_ring"): (lambda n: 2 * (n - 1), lambda n: 2 * (n - 1) / n),
    ("all_reduce", "chain"): (lambda n: 2 * (n - 1), lambda _: 2),
    ("all_reduce", "allpairs"): (lambda _: 2, lambda n: 2 * (n - 1) / n),
    ("all_reduce", "allpairs_oneshot"): (lambda _: 3, lambda n: n - 1),
    ("all_reduce", "swing"): (lambda n: 2 * log2(n), lambda n: 2 * (n - 1) / n),
    ("all_reduce", "swing_2d"): (lambda n: 2 * log2(n), lambda n: 2 * (n - 1) / n),
    ("all_reduce", "switch"): (lambda _: 3, lambda n: 1 + 1 / n),
    ("all_gather", "bruck"): (lambda n: ceil(log2(n)), lambda n: (n - 1) / n),
    ("all_gather", "pat"): (lambda n: ceil(log2(n)), lambda n: (n - 1) / n),
    ("reduce_scatter", "pat"): (lambda n: ceil(log2(n)), lambda n: (n - 1) / n),
    ("all_to_all", "pairwise"): (lambda n: n - 1, lambda n: (n - 1) / n),
    ("broadcast", "chain"): (lambda n: n - 1, lambda _: 1),
}


@pytest.mark.parametrize("ranks", [4, 5, 8, 13, 16])
@pytest.mark.parametrize("collective,algorithm", BOUNDS)
def test_programs_have_the_hops_and_bytes_of_their_pages(collective, algorithm, ranks):
    if ALGORITHMS[collective, algorithm].power_of_two and ranks & ranks - 1:
        pytest.skip("powers of two only")
    steps, sent = BOUNDS[collective, algorithm]
    program = Collective.of(collective, "1 MiB", algorithm, channels=2).program(ranks)
    assert hops(program, 2**20) == steps(ranks)
    assert bytes_sent(program) == pytest.approx(sent(ranks))


@pytest.mark.parametrize("ranks", [4, 8, 16])
def test_powers_of_two_need_the_fewest_hops(ranks):
    for algorithm, steps, sent in (
        ("halving_doubling", 2 * log2(ranks), 2 * (ranks - 1) / ranks),
        ("recursive_doubling", log2(ranks), log2(ranks)),
    ):
        program = Collective.of("all_reduce", "1 MiB", algorithm, channels=2).program(ranks)
        assert hops(program, 2**20) == steps
        assert bytes_sent(program) == pytest.approx(sent)


@pytest.mark.parametrize("ranks", [3, 4, 5, 8, 13, 16])
def test_two_trees_below_the_root_send_everything_once(ranks):
    program = Collective.of("broadcast", "1 MiB", "double_tree", channels=2).program(ranks)
    assert hops(program, 2**20) <= ceil(log2(ranks)) + 1
    assert bytes_sent(program) == pytest.approx(1)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_shows_pictures_tables_and_functions_that_there_are(page):
    text = page.read_text()
    for name in re.findall(r"\]\((pictures/[^)]+)\)|:file: (\S+)", text):
        file = page.parent / (name[0] or name[1])
        assert file.exists(), file
        assert file.stat().st_size < 60_000
    for source, function in re.findall(r"literalinclude\} (\S+)\n:pyobject: (\w+)", text):
        assert re.search(rf"^(def|class) {function}\b", (page.parent / source).read_text(), re.MULTILINE)
    if page.stem not in ("index", "libraries"):
        assert all(f"## {part}" in text for part in ("The program", "The bound", "When it wins", "Paper"))


def test_every_page_is_in_the_index_and_every_algorithm_known():
    index = (FOLDER / "index.md").read_text()
    for page in PAGES:
        assert page.stem == "index" or re.search(rf"^{page.stem}$", index, re.MULTILINE), page
    for collective, algorithms in COMPARED.items():
        assert all((collective, algorithm) in ALGORITHMS for algorithm in algorithms)


@pytest.mark.parametrize("name", ["ring", "bruck_all_gather"])
def test_a_picture_is_what_its_run_draws(name):
    assert (FOLDER / "pictures" / f"{name}.svg").read_text() == picture(*PICTURES[name])
