import pytest

import astranb as anb
from astranb.cli import main
from astranb.core.errors import InputError

from .round_trips import SAME, round_trips


@pytest.mark.parametrize(
    "ranks", [pytest.param(4, marks=pytest.mark.slow), pytest.param(8, marks=pytest.mark.slow), 2]
)
@pytest.mark.parametrize("ending", ["json", "xml"])
def test_what_takes_another_time_says_why(ending, ranks):
    found = dict(round_trips(ending, ranks, "16KiB"))
    assert len(found) > 60
    ran = {title: one for title, one in found.items() if not isinstance(one, InputError)}
    assert len(ran) > 50
    silent = [title for title, one in ran.items() if abs(one.slower - 1) > SAME and not one.notes]
    assert silent == []


def test_what_a_file_adds_is_counted(tmp_path):
    ring = anb.collectives.all_reduce("64 KiB", "recursive_doubling", channels=1)
    found = anb.explore.export_algorithm("switch:gpus=4", ring, tmp_path / "algorithm.xml")
    assert found.file_blocks > found.blocks
    assert 1 < found.slower < 1.3  # a handshake for each chunk took 2.9 times as long
    assert any("thread blocks become" in note for note in found.notes)
    assert f"{100 * (found.slower - 1):+.1f}%" in str(found)


def test_the_command_compares(tmp_path, capsys):
    file = str(tmp_path / "algorithm.json")
    words = ["collective", "export", "all_gather", "--algorithm", "ring", "--output", file]
    assert main([*words, "--infra", "ring:gpus=4", "--size", "16KiB", "--channels", "1"]) == 0
    assert "program " in capsys.readouterr().out
    assert main(words) == 2
    assert "give --ranks or --infra" in capsys.readouterr().err


def test_errors_name_the_line(tmp_path):
    def reads(p):
        for me in p.everyone:
            me.block().get(p.rank((me.number + 1) % p.ranks).input[0], me.output[0])

    program = anb.collectives.Collective.of("all_reduce", "4 KiB", reads, channels=1).program(2)
    with pytest.raises(InputError, match=r"test_round_trips.py line \d+: rank 0 reads from another rank"):
        anb.collectives.write_algorithm(program, tmp_path / "algorithm.xml")
