"""Wheels for Python in a browser: what the registries have, what of them is Python, and our own.

Pyodide loads a package from a wheel that its lock file names, with the checksum of that file. Wheels of
``requirements.txt`` come from the package index by pip, which checks them against the hashes there; a package
that has only compiled wheels works without its compiled part, and is packed anew without it.
"""

from __future__ import annotations

import base64
import hashlib
import inspect
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from email import message_from_bytes
from email.message import Message
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from astranb import browser

__all__ = ["compiled", "downloaded", "entry", "fetched", "made", "notice", "own_wheel", "package", "repacked"]

_HERE = Path(__file__).resolve().parent
_PYTHON = "3.13"
_COMPILED = frozenset({"markupsafe", "pyyaml"})
"""Packages without a wheel of Python alone: their Linux wheels hold all of it, beside what is compiled."""
_BINARY = (".so", ".pyd", ".c", ".pyx", ".h")
_ANY = ("--platform=any", "--implementation=py", "--abi=none")
_LINUX = (
    "--platform=manylinux_2_17_x86_64",
    "--platform=manylinux2014_x86_64",
    "--implementation=cp",
    "--abi=cp313",
)
_BROWSER = {
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_machine": "wasm32",
    "platform_python_implementation": "CPython",
    "platform_system": "Emscripten",
    "python_full_version": f"{_PYTHON}.2",
    "python_version": _PYTHON,
    "sys_platform": "emscripten",
}
_MAKES = ("byte_code.py", "byte_code.mjs", "sources.py")
"""Files of ``astranb.browser`` that, beside a wheel itself, determine its byte code."""
_LICENCE_TEXT = re.compile(
    r"[^/]+\.dist-info/(licen[cs]es/.+|(licen[cs]e|copying|notice|authors)[^/]*)", re.IGNORECASE
)
_STAMP = (2020, 1, 1, 0, 0, 0)  # of every file in a wheel, so that the same contents are the same bytes


def downloaded(kept: Path) -> list[Path]:
    """Bring the wheels of ``requirements.txt``, once; those of one machine are packed anew for any."""
    text = (_HERE / "requirements.txt").read_text("utf-8")
    blocks = list(re.finditer(r"^([\w.-]+)==.*(?:\n    --hash.*)*", text, re.MULTILINE))
    anywhere = [block[0] for block in blocks if canonicalize_name(block[1]) not in _COMPILED]
    binary = [block[0] for block in blocks if canonicalize_name(block[1]) in _COMPILED]
    found = fetched(anywhere, kept)
    for wheel in fetched(binary, kept, _LINUX):
        pure = wheel.parent / "pure"
        pure.mkdir(exist_ok=True)
        found.append(repacked(wheel, pure))
    return found


def fetched(requirements: Sequence[str], kept: Path, platform: Iterable[str] = _ANY) -> list[Path]:
    """Bring wheels from the package index, once.

    Parameters
    ----------
    requirements : sequence of str
        Each with the hashes that are accepted.
    kept : Path
        Where the folder of these wheels is made.
    platform : iterable of str
        Options of pip.
    """
    text = "\n".join(requirements)
    folder = kept / hashlib.sha256(text.encode()).hexdigest()[:16]
    if not folder.is_dir():
        kept.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=kept) as temporary:
            file = Path(temporary, "requirements.txt")
            file.write_text(text)
            wheels = Path(temporary, "wheels")
            command = [
                *(sys.executable, "-m", "pip", "download", "-qq", "--disable-pip-version-check", "--no-deps"),
                *("--require-hashes", "--only-binary=:all:", f"--python-version={_PYTHON}", *platform),
                *("-r", str(file), "-d", str(wheels)),
            ]
            subprocess.run(command, check=True)
            wheels.rename(folder)
    return sorted(folder.glob("*.whl"))


def repacked(
    wheel: Path, into: Path, *, without: Iterable[str] = (), more: Mapping[str, bytes] | None = None
) -> Path:
    """Pack a wheel anew, for any machine.

    Parameters
    ----------
    wheel : Path
    into : Path
        A folder.
    without : iterable of str
        What names of files left out begin with; compiled ones are left out anyway. Licences stay.
    more : mapping of str to bytes, optional
        Further files.

    Returns
    -------
    Path
        The new wheel. The same contents give the same bytes.
    """
    name, version = wheel.name.split("-")[:2]
    facts = f"{name}-{version}.dist-info/WHEEL"
    left_out = tuple(without)
    files = {
        file: data
        for file, data in _files(wheel).items()
        if not file.endswith(_BINARY) and not file.startswith(left_out)
    }
    text = re.sub(r"^Tag: .*\n", "", files[facts].decode(), flags=re.MULTILINE).rstrip()
    text = text.replace("Root-Is-Purelib: false", "Root-Is-Purelib: true")
    files[facts] = f"{text}\nTag: py3-none-any\n".encode()
    target = into / f"{name}-{version}-py3-none-any.whl"
    _write(target, {**files, **(more or {})})
    return target


def _files(wheel: Path) -> dict[str, bytes]:
    """Read a wheel's files, without the list of them."""
    with zipfile.ZipFile(wheel) as opened:
        return {name: opened.read(name) for name in opened.namelist() if not name.endswith(("/", "/RECORD"))}


def _write(wheel: Path, files: Mapping[str, bytes]) -> None:
    """Write a wheel with the list of its files."""
    name, version = wheel.name.split("-")[:2]
    record = f"{name}-{version}.dist-info/RECORD"
    rows = [f"{file},sha256={_digest(data)},{len(data)}" for file, data in sorted(files.items())]
    listed = "\n".join([*rows, f"{record},,", ""]).encode()
    with zipfile.ZipFile(wheel, "w") as new:
        for file, data in [*sorted(files.items()), (record, listed)]:
            new.writestr(zipfile.ZipInfo(file, _STAMP), data, zipfile.ZIP_DEFLATED)


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def own_wheel(root: Path, into: Path) -> Path:
    """Build the wheel of the checkout for browsers: WebAssembly in place of machine code, no notebooks.

    Parameters
    ----------
    root : Path
        The checkout.
    into : Path
        A folder.
    """
    from astranb.core.ahead import modules
    from astranb.core.code import sealed, source_hash
    from astranb.core.host import KERNEL_FOLDER

    place = f"astranb/_objects/{source_hash()}/{KERNEL_FOLDER}"
    kernels = {f"{place}/{name}.wasm": sealed(code) for name, code in modules().items()}
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        environment = {**os.environ, "HATCH_BUILD_NO_HOOKS": "true"}
        subprocess.run(command, cwd=root, check=True, env=environment, capture_output=True)
        (built,) = Path(folder).glob("*.whl")
        left_out = ("astranb/_notebooks/", "astranb/_tutorials/", "astranb/_examples/")
        return repacked(built, into, without=left_out, more=kernels)


def package(wheel: Path) -> str:
    """Return the normal name of a wheel's package."""
    return str(parse_wheel_filename(wheel.name)[0])


def made(name: str, summary: str, into: Path, files: Mapping[str, bytes] | None = None) -> Path:
    """Write a wheel of some files; one without any stands for a package that a site does without."""
    info, wheel = f"{name}-0.dist-info", into / f"{name}-0-py3-none-any.whl"
    facts = "Wheel-Version: 1.0\nGenerator: astranb\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 0\nSummary: {summary}\n"
    _write(wheel, {f"{info}/METADATA": metadata.encode(), f"{info}/WHEEL": facts.encode(), **(files or {})})
    return wheel


def compiled(wheels: Iterable[Path], kept: Path, pyodide: Mapping[str, Path]) -> list[Path]:
    """Put byte code of the browser's Python into wheels: they are imported in less than half the time.

    Our own package keeps its sources beside it: views and tracebacks show them.

    Parameters
    ----------
    wheels : iterable of Path
    kept : Path
        A folder for what has been compiled; what this call does not ask for is removed.
    pyodide : mapping of str to Path
        Pyodide's own files.

    Returns
    -------
    list of Path
        In the same order.
    """
    makes = b"".join(Path(inspect.getfile(browser), "..", name).resolve().read_bytes() for name in _MAKES)
    targets = {
        wheel: kept / hashlib.sha256(makes + wheel.read_bytes()).hexdigest()[:16] / wheel.name
        for wheel in wheels
    }
    kept.mkdir(parents=True, exist_ok=True)
    wanted = {target.parent.name for target in targets.values()}
    for old in kept.iterdir():
        if old.name not in wanted:
            shutil.rmtree(old)
    missing = [wheel for wheel, target in targets.items() if not target.exists()]
    if missing:
        archives = [
            browser.Archive(
                wheel.name,
                list(_files(wheel).items()),
                beside="astranb/" if wheel.name.startswith("astranb-") else "",
                documented=True,
            )
            for wheel in missing
        ]
        with TemporaryDirectory() as folder:
            browser.byte_code(pyodide, archives, Path(folder))
            for wheel in missing:
                targets[wheel].parent.mkdir(exist_ok=True)
                _write(targets[wheel], _files(Path(folder, wheel.name)))
    return list(targets.values())


def entry(
    wheel: Path, known: frozenset[str], absent: frozenset[str], extras: Iterable[str] = ()
) -> dict[str, Any]:
    """Describe a wheel as Pyodide's lock file does.

    Parameters
    ----------
    wheel : Path
    known : set of str
        The packages of the lock file, by their normal names.
    absent : set of str
        Packages that are not in it, although wheels ask for them: what needs them is not for browsers.
    extras : iterable of str
        The package's extras that are wanted.
    """
    name, version = parse_wheel_filename(wheel.name)[:2]
    with zipfile.ZipFile(wheel) as opened:
        files = opened.namelist()
    asked = _facts(wheel).get_all("Requires-Dist") or []
    depends = set()
    for requirement in map(Requirement, asked):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({**_BROWSER, "extra": extra}) for extra in ("", *extras)):
            depends.add(canonicalize_name(requirement.name))
    if unknown := depends - known - absent:
        raise SystemExit(f"{wheel.name} asks for {', '.join(sorted(unknown))}: add it to requirements.in")
    return {
        "name": name,
        "version": str(version),
        "file_name": wheel.name,
        "install_dir": "site",
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "package_type": "package",
        "imports": _modules(files),
        "depends": sorted(depends & known),
        "unvendored_tests": False,
    }


def notice(wheel: Path) -> str:
    """Return the licence of a wheel: its name, and the texts that the wheel has."""
    facts = _facts(wheel)
    classified = [
        one.split(" :: ")[-1] for one in facts.get_all("Classifier", []) if one.startswith("License ::")
    ]
    licence = str(
        facts["License-Expression"] or ", ".join(classified) or facts["License"] or "not said in it"
    )
    name, version = wheel.name.split("-")[:2]
    texts = [
        data.decode("utf-8", "replace").strip()
        for file, data in sorted(_files(wheel).items())
        if _LICENCE_TEXT.fullmatch(file)
    ]
    return "\n\n".join([f"{name} {version}: {licence.strip()}", *texts])


def _facts(wheel: Path) -> Message:
    """Read what a wheel says of itself."""
    with zipfile.ZipFile(wheel) as opened:
        (file,) = (one for one in opened.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", one))
        return message_from_bytes(opened.read(file))


def _modules(files: Iterable[str]) -> list[str]:
    """Name the modules at the top of a wheel."""
    found = set()
    for path in map(PurePosixPath, files):
        if path.suffix in {".py", ".pyc"} and (len(path.parts) == 1 or path.stem == "__init__"):
            found.add(path.parts[0].removesuffix(path.suffix))
    return sorted(found)
