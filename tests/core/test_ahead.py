import subprocess
from pathlib import Path

import astranb
from astranb.core import ahead
from astranb.core.code import cache_folder, entry_modules

PACKAGE = Path(astranb.__file__).parent


def test_every_module_with_an_entry_is_found():
    with_entries = {
        ".".join(file.relative_to(PACKAGE).with_suffix("").parts)
        for file in PACKAGE.rglob("*.py")
        if " = Entry(" in file.read_text()
    }
    assert len(with_entries) >= 5
    assert set(entry_modules()) == with_entries


def test_the_entries_of_all_modules_are_loaded_the_largest_first():
    names = ahead.load_entries()
    assert {"run_events", "run_layers", "run_messages", "chakra_walk", "nearest"} <= set(names)
    assert names.index("run_events") < names.index("nearest")


def test_what_is_compiled_is_not_compiled_again(tmp_path, monkeypatch):
    """The process in the background ends at once, and leaves a mark that no other is needed."""
    monkeypatch.setenv("ASTRANB_CACHE_DIR", str(tmp_path))
    asked = []

    def is_ready(entry):
        asked.append(entry)
        return True

    monkeypatch.setattr("astranb.core.entry.Entry.is_ready", is_ready)
    ahead.compile_all()
    assert {entry.name for entry in asked} == set(ahead.load_entries())
    started = []
    monkeypatch.setattr("subprocess.Popen", lambda *_args, **_more: started.append(1))
    with ahead.in_background():
        pass
    assert not started
    assert (cache_folder() / "complete").exists()


def test_the_process_in_the_background_ends_with_the_block(tmp_path, monkeypatch):
    monkeypatch.setenv("ASTRANB_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(ahead, "JIT", True)
    started = []
    popen = subprocess.Popen

    def start(*args, **more):
        started.append(popen(*args, **more))
        return started[0]

    monkeypatch.setattr("subprocess.Popen", start)
    with ahead.in_background():
        assert started[0].poll() is None
    assert started[0].poll() is not None
