"""Plans that travel with the state of their run: in links to a page, and in files that Python opens, too."""

from __future__ import annotations

import base64
import json
import random
import zlib
from pathlib import Path
from typing import Any

import pytest

import astranb as anb
from tests.collectives.formats.test_mscclpp import all_pairs, all_pairs_packets
from tests.widgets.live.kernels import NodeKernel
from tests.widgets.live.test_plan import PlanPage, exported, plan_page, saved
from tests.widgets.live.test_shared_states import hash_of, refusal

SIZE = 16 * 1024
BEGIN = "#state="


@pytest.fixture(scope="module")
def pages():
    """Two pages of one run, and one of the same machine with another run."""
    with plan_page("switch:gpus=2") as one, plan_page("switch:gpus=2") as other:
        yield one, other


def changed(page: NodeKernel) -> None:
    """Take a run to its middle, with a change and a breakpoint."""
    for message in (
        {"type": "ready"},
        {"type": "event", "n": 200},
        {"type": "set", "path": "gpu[1].l2", "value": "300 ns"},
        {"type": "breakpoint", "how": "at", "time": "90 us"},
        {"type": "event", "n": 150},
    ):
        page.send(message)


def answer(page: NodeKernel, message: str, kind: str) -> dict[str, Any]:
    """What a control answers; the run may have news meanwhile."""
    (found,) = [meta for meta, _ in page.send({"type": message}) if meta.get("type") == kind]
    return found


def link_of(page: NodeKernel) -> str:
    return str(answer(page, "copy_link", "link")["fragment"])


def follow(page: NodeKernel, fragment: str) -> None:
    sent = page.send({"type": "follow_link", "fragment": fragment})
    assert not [meta for meta, _ in sent if meta["type"] == "refused"], sent


def shown(page: NodeKernel) -> dict[str, Any]:
    return answer(page, "shown", "shown")


def in_python(page: PlanPage, file: Path) -> anb.Simulation:
    """The same run, taken to the same moment."""
    sim, _, _ = page.python(file, SIZE)
    assert sim
    sim.step(200)
    sim.set("gpu[1].l2", "300 ns")
    sim.step(150)
    return sim


@pytest.mark.parametrize("document", [all_pairs(2), all_pairs_packets(2) | {"name": '\u00e9 "x", {1 \\n'}])
def test_a_link_holds_the_plan_that_runs(pages, tmp_path, document):
    page, other = pages
    file = saved(tmp_path, document)
    begun = shown(other.page)
    own = link_of(other.page)
    assert "error" not in page.drop(file, SIZE)
    changed(page.page)
    link = link_of(page.page)
    follow(other.page, link)
    assert shown(other.page) == shown(page.page)
    assert shown(other.page)["events"] == 350
    assert hash_of(other.page) == in_python(page, file).state_hash()
    for one in pages:
        one.page.send({"type": "event", "n": 10**9})
    assert hash_of(other.page) == hash_of(page.page)
    assert link_of(other.page) != link
    follow(other.page, link)  # in the run that is shown already
    assert link_of(other.page) == link
    follow(other.page, own)
    assert shown(other.page) == begun
    assert "plan" not in made_of(own)


def test_a_plan_of_the_library_fits_into_a_link(tmp_path):
    """What is only space between its words is left out."""
    file = exported(tmp_path, "dgx-h100", "all_reduce", "64 KiB", "ring")
    assert file.stat().st_size > 300_000
    with plan_page("dgx-h100") as page:
        page.drop(file, SIZE)
        link = link_of(page.page)
        assert len(link) < 8192
        page.drop(file, 777)
        follow(page.page, link)
        sim, _, _ = page.python(file, SIZE)
        assert sim
        assert hash_of(page.page) == sim.state_hash()


def test_a_plan_too_large_for_a_link_goes_into_a_file(pages, tmp_path):
    page, other = pages
    noise = random.Random(1).randbytes(8000).hex()
    assert "error" not in page.drop(saved(tmp_path, all_pairs(2) | {"name": noise}), SIZE)
    changed(page.page)
    what = "this plan is too large for a link; save it as a file, and send that with the page"
    assert refusal(page.page, {"type": "copy_link"}) == what
    page.page.send({"type": "save", "path": str(tmp_path / "plan.anb")})
    other.page.send({"type": "open", "path": str(tmp_path / "plan.anb")})
    assert shown(other.page) == shown(page.page)


def test_a_file_with_a_plan_goes_through_python_to_another_page(pages, tmp_path):
    page, _ = pages
    file = saved(tmp_path, all_pairs(2))
    page.drop(file, SIZE)
    changed(page.page)
    page.page.send({"type": "save", "path": str(tmp_path / "a.anb")})
    sim = anb.Simulation.load(tmp_path / "a.anb")
    assert sim.state_hash() == in_python(page, file).state_hash()
    sim.step(60)
    sim.save(tmp_path / "b.anb")
    for one in pages:
        one.page.send({"type": "open", "path": str(tmp_path / "b.anb")})
        assert hash_of(one.page) == sim.state_hash()
        assert [point["text"] for point in shown(one.page)["breakpoints"]] == ["at 90 \u00b5s"]


def made_of(fragment: str) -> dict[str, Any]:
    lines = zlib.decompress(base64.urlsafe_b64decode(fragment.removeprefix(BEGIN) + "=="), -15)
    found: dict[str, Any] = json.loads(lines.split(b"\n")[0])
    return found


def made_up(document: Any, *lines: str) -> str:
    data = zlib.compressobj(9, zlib.DEFLATED, -15)
    words = [json.dumps(document), *(line.replace("\n", "") for line in lines)]
    packed = data.compress("\n".join(words).encode()) + data.flush()
    return BEGIN + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def test_a_link_that_somebody_has_made_up_is_refused_in_a_line(pages, tmp_path):
    page, other = pages
    page.drop(saved(tmp_path, all_pairs(2)), SIZE)
    page.page.send({"type": "event", "n": 100})
    document, text = made_of(link_of(page.page)), json.dumps(all_pairs(2))
    events = shown(page.page)["events"]

    def refused(*lines: str, **changes: Any) -> str:
        plan = {**document["plan"], **changes}
        words = refusal(
            page.page, {"type": "follow_link", "fragment": made_up({**document, "plan": plan}, *lines)}
        )
        assert "\n" not in words
        return words

    for size in (0, 1.5, "16 KiB", None, 2**70, -1, [1]):
        assert refused(text, size=size) == "this is no plan of a run"
    for name in (None, 7, "x" * 2000, {"a": 1}):
        assert refused(text, name=name) == "this is no plan of a run"
    assert refused() == "this is no plan of a run"  # without the plan's text
    for plan in (None, 7, "x", [], [1]):
        fragment = made_up({**document, "plan": plan}, text)
        assert refusal(page.page, {"type": "follow_link", "fragment": fragment}) == "this is no plan of a run"
    assert "not JSON" in refused("{", name="<b>a</b>")
    assert refused("<algo/>", name="<b>a</b>").startswith("<b>a</b>: no MSCCL++ execution plan")
    assert "it is for 4 ranks, not 2" in refused(json.dumps(all_pairs(4)))
    assert "the memory of a" in refused(text, size=2**50)
    assert refused("{" * 5000)
    bomb = refused(" " * 2_000_000)  # packs to a few kB
    assert "neither an MSCCL++" in bomb
    assert shown(page.page)["events"] == events  # it has stayed where it was
    late = made_up({**document, "state": {**document["state"], "events": 10**9}}, text)
    assert "this run ends after" in refusal(other.page, {"type": "follow_link", "fragment": late})


def test_a_file_that_somebody_has_made_up_is_refused_in_a_line(pages, tmp_path):
    page, _ = pages
    page.drop(saved(tmp_path, all_pairs(2)), SIZE)
    page.page.send({"type": "event", "n": 100})
    page.page.send({"type": "save", "path": str(tmp_path / "a.anb")})
    plan = anb.Simulation.load(tmp_path / "a.anb").notes["plan"]
    for made, words in (
        ({**plan, "size": -5}, "this is no plan of a run"),
        ({**plan, "text": 5}, "this is no plan of a run"),
        (5, "this is no plan of a run"),
        ({**plan, "size": 77}, "it differs in \u201ccollective\u201d"),
        ({**plan, "text": "[]"}, "neither an MSCCL++"),
    ):
        sim = anb.Simulation.load(tmp_path / "a.anb")
        sim.notes["plan"] = made
        sim.save(tmp_path / "b.anb")
        assert words in refusal(page.page, {"type": "open", "path": str(tmp_path / "b.anb")})
