"""Files are written whole, and sets of files too; links, devices and pipes stay what they are."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from astranb.chakra import TraceBuilder, read_ranks, write_ranks
from astranb.core.errors import InputError
from astranb.core.files import whole_file, whole_files


def write(path: Path, content: bytes) -> None:
    with whole_file(path) as file:
        file.write(content)


def test_a_link_stays_and_its_target_is_written(tmp_path: Path):
    target, link, chain = tmp_path / "data" / "a", tmp_path / "link", tmp_path / "chain"
    target.parent.mkdir()
    link.symlink_to("data/a")
    chain.symlink_to(link)
    for content in (b"new", b"again"):  # at first the link leads nowhere
        write(chain, content)
        assert link.is_symlink()
        assert chain.is_symlink()
        assert target.read_bytes() == content
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(InputError, match="cannot be written"):
        write(loop, b"x")


def test_a_file_keeps_its_permissions(tmp_path: Path):
    path = tmp_path / "secret"
    path.write_bytes(b"")
    path.chmod(0o600)
    write(path, b"x")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_pipe_and_a_device_are_written_and_stay(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write(pipe, b"x" * 100_000)
    reader.join(10)
    assert found == [b"x" * 100_000]
    assert pipe.is_fifo()
    write(Path(os.devnull), b"x")
    assert Path(os.devnull).is_char_device()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is always full")
def test_a_full_disk_is_one_line():
    with pytest.raises(InputError, match="No space left"):
        write(Path("/dev/full"), b"x")
    assert Path("/dev/full").is_char_device()
    for words in (["--help"], ["--version"], ["collective", "list"], ["collective", "list", "--json"]):
        with Path("/dev/full").open("wb") as full:
            ended = subprocess.run(
                [sys.executable, "-m", "astranb", *words], stdout=full, stderr=subprocess.PIPE, check=False
            )
        assert ended.returncode == 2
        assert ended.stderr.decode() == "astranb: standard output: No space left on device\n"


def test_a_folder_or_a_long_name(tmp_path: Path):
    with pytest.raises(InputError, match="folder"):
        write(tmp_path, b"x")
    write(tmp_path / ("n" * 250), b"x")
    with pytest.raises(InputError, match="cannot be written"):
        write(tmp_path / ("n" * 300), b"x")


def test_a_set_appears_at_once(tmp_path: Path):
    def put(content: bytes, *, fails: bool = False) -> None:
        with whole_files(stale=[tmp_path / "2"]) as add:
            for name in ("0", "1"):
                with add(tmp_path / name) as file:
                    file.write(content)
            if fails:
                raise KeyboardInterrupt

    (tmp_path / "2").write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        put(b"new", fails=True)
    assert [file.name for file in tmp_path.iterdir()] == ["2"]
    put(b"new")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"0": b"new", "1": b"new"}

    def put_elsewhere() -> None:
        with whole_files() as add:
            for place in (tmp_path / "0", tmp_path / "no" / "1"):
                with add(place) as file:
                    file.write(b"newer")

    with pytest.raises(InputError, match="cannot be written"):
        put_elsewhere()
    assert (tmp_path / "0").read_bytes() == b"new"
    assert len(list(tmp_path.iterdir())) == 2


_SCRIPT = """
import sys
from pathlib import Path
from astranb.chakra import write_ranks
for turn in range(1, 1000):
    write_ranks(lambda _rank: bytes([8, turn % 100]) * 2000, sys.argv[1], ranks=1 + turn % 5)
"""


@pytest.mark.parametrize("after_ms", [60, 61, 62, 63, 64, 65])
def test_a_killed_writer_leaves_no_mixture(tmp_path: Path, after_ms: int):
    prefix = tmp_path / "step"
    child = subprocess.Popen([sys.executable, "-c", _SCRIPT, str(prefix)])
    while child.poll() is None and not list(tmp_path.iterdir()):
        pass
    threading.Event().wait(after_ms / 1000)
    child.send_signal(signal.SIGKILL)
    child.wait()
    found = {file.name: file.read_bytes() for file in tmp_path.glob("step.*")}
    assert len(set(found.values())) <= 1
    if found:
        turn = next(iter(found.values()))[1]
        whole = {f"step.{rank}.et" for rank in range(1 + turn % 5)}
        assert found.keys() <= whole
        assert "step.0.et" not in found or found.keys() == whole


def test_the_next_set_removes_what_a_killed_writer_left(tmp_path: Path):
    def writing() -> set[str]:
        return {file.name for file in tmp_path.glob(".writing-*")}

    def begin() -> subprocess.Popen[bytes]:
        before = writing()
        child = subprocess.Popen([sys.executable, "-c", _BEGUN, str(tmp_path)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        assert child.stdout.readline() == b"begun\n"
        (mine,) = writing() - before
        assert [file.name for file in (tmp_path / mine).iterdir()] == ["0"]
        return child

    def kill(child: subprocess.Popen[bytes]) -> None:
        child.kill()
        child.communicate()

    kept = tmp_path / ".writing-notes"  # a person's own
    kept.mkdir()
    (kept / "notes.txt").touch()
    dead = begin()
    kill(dead)
    left = writing() - {kept.name}
    assert len(left) == 1
    alive = begin()
    assert not left & writing()
    mine = writing() - {kept.name}
    with whole_files() as add, add(tmp_path / "set.0") as file:
        file.write(b"all of it")
    assert writing() == mine | {kept.name}  # another process still writes there
    kill(alive)
    with whole_files() as add, add(tmp_path / "set.0") as file:
        file.write(b"again")
    assert {file.name for file in tmp_path.iterdir()} == {"set.0", kept.name}
    assert (kept / "notes.txt").exists()


_BEGUN = """
import sys, time
from pathlib import Path
from astranb.core.files import whole_files
with whole_files() as add:
    with add(Path(sys.argv[1]) / "set.0") as file:
        file.write(b"a part")
    print("begun", flush=True)
    time.sleep(600)
"""


def test_a_smaller_set_removes_further_ranks(tmp_path: Path):
    step = TraceBuilder()
    step.collective("all_reduce", "1 MiB")
    trace = step.build()
    write_ranks(lambda _rank: trace.data, tmp_path / "a", ranks=4)
    (tmp_path / "a.1.et.gz").write_bytes(b"older")
    write_ranks(lambda _rank: trace.data, tmp_path / "a", ranks=2)
    assert len(read_ranks(tmp_path / "a")) == 2
    assert len(list(tmp_path.iterdir())) == 2
