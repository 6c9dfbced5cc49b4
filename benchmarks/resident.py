"""The most memory that a process has had of its own; of a command: ``python -m benchmarks.resident run …``.

What the system counts as a process's resource usage contains the memory of the process that started it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

__all__ = ["most_of_command", "most_resident"]


def most_resident() -> int:
    """Return the most memory that this process has had since it began its program, in bytes."""
    found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    assert found is not None
    return 1024 * int(found[1])


def most_of_command(*arguments: str) -> tuple[str, int]:
    """Run a command of astranb in a process of its own; return what it prints, and its most memory."""
    command = [sys.executable, "-m", "benchmarks.resident", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout, int(done.stderr.splitlines()[-1])


if __name__ == "__main__":
    from astranb.cli import main

    code = main(sys.argv[1:])
    print(most_resident(), file=sys.stderr)
    sys.exit(code)
