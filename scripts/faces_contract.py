"""The contract of faces, for import-linter: what is outside a folder imports from its ``__init__`` only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grimp import ImportGraph  # noqa: TC002 - import-linter is there wherever this is
from importlinter import Contract, ContractCheck, fields, output

__all__ = ["FacesContract"]


class FacesContract(Contract):
    """Check that no import goes past a face.

    A file may import files of its own folder and of the folders around it, and other folders by their
    faces, at any depth. A face, the ``__init__`` of a folder, forwards from everything below it, so a file
    may not import the face of a folder that it lies in: that would be a circle.

    Options: ``toolboxes`` are folders whose files are their faces; ``open_modules`` are files that are
    faces themselves.
    """

    type_name = "faces"

    toolboxes: Any = fields.SetField(subfield=fields.StringField(), required=False, default=frozenset())
    open_modules: Any = fields.SetField(subfield=fields.StringField(), required=False, default=frozenset())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002 - import-linter's own signature
        """Return the imports past a face."""
        past = sorted(self._past(graph))
        return ContractCheck(kept=not past, metadata={"past": past})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each import past a face, with the line of the file and the face to use."""
        for importer, imported, line in check.metadata["past"]:
            face = imported.rpartition(".")[0]
            remedy = "from its module" if importer.startswith(f"{imported}.") else f"from {face}"
            output.print_error(f"{importer} (l.{line}) imports {imported}: import the name {remedy}")

    def _past(self, graph: ImportGraph) -> Iterator[tuple[str, str, int]]:
        folders = {module for module in graph.modules if graph.find_children(module)}
        for importer in graph.modules:
            for imported in graph.find_modules_directly_imported_by(importer):
                if not self._is_allowed(importer, imported, folders):
                    details = graph.get_import_details(importer=importer, imported=imported)
                    yield importer, imported, details[0]["line_number"]

    def _is_allowed(self, importer: str, imported: str, folders: set[str]) -> bool:
        if imported.startswith(f"{importer}."):  # a face forwards
            return True
        if imported in folders:
            return not importer.startswith(f"{imported}.")
        folder = imported.rpartition(".")[0]
        within = importer == folder or importer.startswith(f"{folder}.")
        return within or folder in self.toolboxes or imported in self.open_modules
