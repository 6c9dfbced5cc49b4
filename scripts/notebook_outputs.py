"""Write the outputs that notebooks are compared with again: ``python -m scripts.notebook_outputs FILE …``.

A notebook is run from beginning to end. Cells with the tag ``nbval-check-output`` get what they print now;
the other cells keep what they have.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import nbformat
from nbclient import NotebookClient

CHECKED = "nbval-check-output"


def renew(file: Path) -> list[int]:
    """Run a notebook and write its checked outputs; gives the numbers of the cells that changed."""
    notebook = nbformat.read(file, as_version=4)
    ran = nbformat.read(file, as_version=4)
    NotebookClient(ran, timeout=900, resources={"metadata": {"path": str(file.parent)}}).execute()
    changed = []
    for number, (cell, new) in enumerate(zip(notebook.cells, ran.cells, strict=True)):
        if CHECKED not in cell.metadata.get("tags", []):
            continue
        outputs = _joined([_text_only(output) for output in new.outputs])
        if outputs != cell.outputs:
            changed.append(number)
            cell.outputs, cell.execution_count = outputs, cell.execution_count or new.execution_count
    if changed:
        nbformat.write(notebook, file)
    return changed


def _text_only(output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Drop pictures and views: a committed notebook has texts."""
    if "data" in output:
        output.data = {kind: text for kind, text in output.data.items() if kind.startswith("text/")}
    return output


def _joined(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Join what a cell has printed in several pieces."""
    found: list[nbformat.NotebookNode] = []
    for output in outputs:
        before = found[-1] if found else None
        stream = output.output_type == "stream" and before is not None and before.output_type == "stream"
        if stream and before is not None and before.name == output.name:
            before.text += output.text
        else:
            found.append(output)
    return found


def main() -> None:
    """Renew the notebooks that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    for file in parser.parse_args().files:
        print(file, renew(file) or "as before", flush=True)


if __name__ == "__main__":
    main()
