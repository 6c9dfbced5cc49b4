"""An infrastructure: a checked document, its expansion, its summary and its file."""

from __future__ import annotations

import copy
import html
import json
import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from astranb.core.document import DocumentSource, Place, form_of
from astranb.core.errors import InputWarning
from astranb.core.extras import needs_extra
from astranb.core.files import whole_file
from astranb.core.plural import plural
from astranb.hardware import GPU_FILES, is_file_name, read_gpu

from .annotate import Annotations, read_annotations
from .expand import expand_edges, expand_nodes
from .failed import failed_edges
from .graph import EdgeColumns, Link, NodeColumns, NodeGraph
from .physical import check_links, forward_latencies, physical, rank_order
from .plan import NodeKind, plan
from .schema import check_annotations, check_infrastructure

__all__ = ["Infra"]


class Infra:
    """A checked InfraGraph document with its annotations, made by `load`, `blueprint` or `resolve`.

    Parameters
    ----------
    document : dict
        An InfraGraph ``Infrastructure``.
    annotations : dict, optional
        An InfraGraph ``Annotation``.
    source : DocumentSource, optional
        The source of the document, for errors.
    notes : sequence of str
        Remarks, for example what a blueprint corrects.

    Attributes
    ----------
    notes : list of str
    missing : str
        What a topology file leaves out although the machine has it; empty if nothing.
    with_gpu : callable, optional
        Reads that file again for GPUs of a name.

    Raises
    ------
    InputError
        The first error, with file and line if they are known.

    Examples
    --------
    >>> from astranb.infragraph import load
    >>> infra = load('''
    ... name: pair
    ... devices: [{name: box, components: [{name: gpu, count: 2, choice: xpu}],
    ...            links: [{name: nvlink4}],
    ...            edges: [{ep1: {component: 'gpu[0]'}, ep2: {component: 'gpu[1]'},
    ...                     scheme: one2one, link: nvlink4}]}]
    ... instances: [{name: host, device: box, count: 1}]
    ... ''')
    >>> graph = infra.expand()
    >>> graph.names, int(graph.edges.lanes[0])
    (['host.0.gpu.0', 'host.0.gpu.1'], 18)
    """

    def __init__(
        self,
        document: dict[str, Any],
        annotations: dict[str, Any] | None = None,
        *,
        source: DocumentSource | None = None,
        annotations_source: DocumentSource | None = None,
        notes: tuple[str, ...] = (),
        at: Place = (),
        annotations_at: Place = (),
    ) -> None:
        source = source or DocumentSource("infrastructure")
        of_annotations = annotations_source or source
        self._source = source
        self._document = _own(check_infrastructure(document, source, at), source)
        self._annotated: dict[str, Any] | None = None
        if annotations is not None:
            checked = check_annotations(annotations, of_annotations, annotations_at)
            self._annotated = _own(checked, of_annotations)
        self._plan = plan(self._document, source, at)
        self._stated = check_links(self._plan, source)
        self._annotations: Annotations = read_annotations(
            self._annotated or {}, self._plan, of_annotations, annotations_at
        )
        self.notes: list[str] = list(notes)
        self.missing = ""
        self.with_gpu: Callable[[str | None], Infra] | None = None

    def completed(self, gpu: str | None) -> Infra:
        """Add what a topology file leaves out and NCCL would find by asking the driver.

        Parameters
        ----------
        gpu : str, optional
            Name of the GPUs, as ``"h100-sxm"``, or their file: it says which links they have among
            themselves.

        Returns
        -------
        Infra
            This one, if nothing is missing.

        Warns
        -----
        InputWarning
            Something is missing, and no GPU, or none whose links are known, is named.

        Examples
        --------
        >>> from astranb.infragraph import blueprint
        >>> blueprint("dgx-h100").completed(None)
        <Infra 'dgx_h100-infra': 33 nodes, 8 GPUs>
        """
        own = gpu is not None and (is_file_name(gpu) or GPU_FILES.plugin(gpu) is not None)
        if gpu is not None and self.with_gpu is not None and own:
            device = read_gpu(gpu)
            gpu = device.like or device.name
        made = self if gpu is None or self.with_gpu is None else self.with_gpu(gpu)
        if made.missing:
            warnings.warn(f"{self._source.name}: {made.missing}", InputWarning, stacklevel=3)
        return made

    def without(self, *paths: str) -> Infra:
        """Return the same infrastructure with failed links: messages take other routes.

        Parameters
        ----------
        *paths : str
            ``A->B`` (all lanes between two nodes, in both directions), ``A->B#k`` (one lane of them)
            or ``A`` (all links of a node: a NIC, a switch); ``gpu[3]`` is short for the name of rank 3.

        Returns
        -------
        Infra
            The failed links are annotations of its edges (``astranb.down``), so that they are saved.

        Raises
        ------
        InputError
            There is no such link or node.

        Examples
        --------
        >>> from astranb.infragraph import blueprint
        >>> ring = blueprint("ring:gpus=4").without("gpu[0]->gpu[1]")
        >>> len(ring.expand().edges.a), ring.expand().failed
        (3, ('box.0.gpu.0->box.0.gpu.1',))
        """
        if not paths:
            return self
        failed = failed_edges(self.expand(), paths)
        notes = [f"{path} is down" for path in paths]
        return self._annotate("edges", failed, notes, lambda infra: infra.without(*paths))

    def with_pxn(self) -> Infra:
        """Return the same infrastructure, in which GPUs send by each other's NICs (NCCL's PXN).

        A message to a GPU that is on another rail goes over NVLink to the GPU of its box that is on this
        rail, and leaves by its NIC; without PXN it leaves by its own, and crosses the spine.

        Returns
        -------
        Infra
            It is an annotation of the graph (``astranb.pxn``), so that it is saved.

        Examples
        --------
        >>> from astranb.infragraph import blueprint
        >>> blueprint("rails").expand().pxn, blueprint("rails").with_pxn().expand().pxn
        (False, True)
        """
        pxn = {"attribute": "astranb.pxn", "value": "yes"}
        return self._annotate("graph", [pxn], ["PXN"], lambda infra: infra.with_pxn())

    def _annotate(
        self, what: str, added: list[Any], notes: list[str], again: Callable[[Infra], Infra]
    ) -> Infra:
        """Return the same with more annotations; ``again`` adds them to one that is read again."""
        annotated = copy.deepcopy(self._annotated or {})
        annotated[what] = [*(annotated.get(what) or []), *added]
        made = Infra(
            copy.deepcopy(self._document), annotated, source=self._source, notes=(*self.notes, *notes)
        )
        made.missing = self.missing
        if self.with_gpu is not None:
            read = self.with_gpu
            made.with_gpu = lambda gpu: again(read(gpu))
        return made

    @property
    def name(self) -> str:
        """Name of the infrastructure; by default that of its file."""
        declared = self._document.get("name")
        return str(declared) if declared else Path(self._source.name).stem

    @property
    def description(self) -> str:
        """Description of the infrastructure; may be empty."""
        return str(self._document.get("description") or "")

    def device_names(self) -> list[str]:
        """Names of all devices, in document order."""
        return list(self._plan.devices)

    def expand(self) -> NodeGraph:
        """Expand to arrays of nodes and edges; the same object every time.

        Raises
        ------
        InputError
            Annotations name edges that do not exist, or ranks that are not 0 to n - 1.
        """
        return self._graph

    @cached_property
    def _graph(self) -> NodeGraph:
        made, notes = self._plan, self._annotations
        component, instance = expand_nodes(made)
        kinds = np.asarray(
            [-1 if c.kind is None else int(c.kind) for _, c in made.components] or [0], np.int8
        )
        devices = np.asarray([d.index for d, _ in made.components] or [0], np.int32)
        kind = kinds[component]
        edges = expand_edges(made)
        values = physical(made, edges, kind, notes, self._stated)
        failed = values.fail()
        up = values.lanes > 0
        forward, assumed = forward_latencies(made, component, notes)
        gpus = np.flatnonzero(kind == NodeKind.XPU)
        graph = NodeGraph(
            title=self.name,
            nodes=NodeColumns(
                kind=kind,
                component=component.astype(np.int32),
                instance=instance.astype(np.int32),
                device=devices[component],
                forward_ps=forward,
            ),
            edges=EdgeColumns(
                a=edges.a[up].astype(np.int32),
                b=edges.b[up].astype(np.int32),
                link=edges.link[up].astype(np.int32),
                lanes=values.lanes[up].astype(np.int32),
                values={column: column_values[:, up] for column, column_values in values.values.items()},
            ),
            gpus=gpus.astype(np.int32),
            links=tuple(
                Link(row.name, row.scope, of.type.name)
                for row, of in zip(made.links, values.rows, strict=True)
            ),
            devices=tuple(made.devices),
            assumed=values.assumed + assumed,
            plan=made,
            annotations=notes,
        )
        ends = zip(edges.a[failed].tolist(), edges.b[failed].tolist(), strict=True)
        return replace(
            graph,
            gpus=rank_order(gpus, notes, graph.name).astype(np.int32),
            failed=tuple(f"{graph.name(a)}->{graph.name(b)}" for a, b in ends),
        )

    def profile_of_gpus(self) -> list[str | None]:
        """GPU preset of each rank, by annotation ``astranb.profile``; None if not annotated."""
        graph = self.expand()
        profile = np.full(len(graph), None, object)
        for note in self._annotations.nodes:
            if "astranb.profile" in note.read:
                profile[note.about[0].nodes()] = note.read["astranb.profile"]
        declared: list[str | None] = profile[graph.gpus].tolist()
        return declared

    def to_dict(self) -> dict[str, Any]:
        """Return the document as plain data that `load` reads again.

        Returns
        -------
        dict
            The infrastructure; with annotations ``{"infrastructure": …, "annotations": …}``, the
            form that InfraGraph's own tools exchange.
        """
        document = copy.deepcopy(self._document)
        if self._annotated is None:
            return document
        return {"infrastructure": document, "annotations": copy.deepcopy(self._annotated)}

    def to_infragraph(self) -> Any:
        """Convert it to an ``infragraph.Infrastructure``, without annotations.

        Raises
        ------
        InputError
            The ``infragraph`` package is not installed.
        """
        with needs_extra("Infra.to_infragraph"):
            from infragraph import Infrastructure
        document = copy.deepcopy(self._document)
        document.setdefault("name", self.name)
        for device in document.get("devices") or []:
            for key in ("links", "edges"):  # mandatory there, even when empty
                device[key] = device.get(key) or []
        return Infrastructure().deserialize(document)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the document atomically.

        Parameters
        ----------
        path : path
            ``.json`` writes JSON, anything else YAML.

        Raises
        ------
        InputError
            The file cannot be written.
        """
        path = Path(path)
        data = self.to_dict()
        if form_of(path) == "json":
            text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
        else:
            import yaml

            dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
            text = yaml.dump(data, Dumper=dumper, sort_keys=False, allow_unicode=True)
        with whole_file(path) as file:
            file.write(text.encode())

    def check(self) -> list[str]:
        """List what is valid but may be a mistake.

        Returns
        -------
        list of str
            Nodes without edges, several connected components, pairs declared twice, names that slices
            cannot select, unused devices and similar; empty if there is none.
        """
        graph, made = self.expand(), self._plan
        found = [*filter(None, [self.missing]), *made.warnings]
        alone = np.flatnonzero(graph.degree() == 0)
        if len(alone) and len(graph) > 1:
            some = ", ".join(graph.name(int(n)) for n in alone[:4]) + (", …" if len(alone) > 4 else "")
            found.append(f"{plural(len(alone), 'node has', 'nodes have')} no edge: {some}")
        count, label = graph.connected_components(), graph.component_labels
        if count > 1:
            found.append(f"the nodes fall into {count:,} parts that cannot reach one another")
            if len(graph.gpus) and len(np.unique(label[graph.gpus])) > 1:
                found.append("some GPUs cannot reach one another")
        if not len(graph.gpus):
            found.append("no GPU: a GPU is a component with choice: xpu")
        pairs = len(graph.edges) - len(graph.simple_edges()[0])
        if pairs:
            found.append(
                f"{plural(pairs, 'pair')} with a second link; the upstream package keeps only the last"
            )
        names = dict.fromkeys([*made.instances, *(c.name for _, c in made.components)])
        found += [
            f"name {n!r} contains brackets, which also mark slices" for n in names if set("[]") & set(n)
        ]
        used = {i.device.name for i in made.instances.values()}
        used |= {c.name for _, c in made.components if c.kind is None}
        found += [f"device {n!r} is not used" for n in made.devices if n not in used]
        return found

    def summary(self) -> dict[str, Any]:
        """Count nodes, edges and GPUs.

        Returns
        -------
        dict
            ``name``, ``nodes``, ``edges`` (distinct undirected pairs), ``node_types``,
            ``edges_by_link``, ``gpus``, ``connected_components``, ``assumed``, ``notes``,
            ``warnings``; plain data, ready for JSON.
        """
        graph = self.expand()
        return {
            "name": self.name,
            "nodes": len(graph),
            "edges": len(graph.simple_edges()[0]),
            "node_types": graph.node_types(),
            "edges_by_link": graph.edges_by_link(),
            "gpus": len(graph.gpus),
            "connected_components": graph.connected_components(),
            "assumed": list(graph.assumed),
            "notes": list(self.notes),
            "warnings": self.check(),
        }

    def __repr__(self) -> str:
        gpus = sum(i.count * i.device.gpus for i in self._plan.instances.values())
        return f"<Infra {self.name!r}: {plural(self._plan.nodes, 'node')}, {plural(gpus, 'GPU')}>"

    def _repr_html_(self) -> str:
        declared = self.summary()
        types = ", ".join(f"{n:,} {t}" for t, n in declared["node_types"].items())
        links = ", ".join(f"{n:,} {t}" for t, n in declared["edges_by_link"].items())
        rows = {
            "nodes": f"{declared['nodes']:,} ({types})",
            "edges": f"{declared['edges']:,} ({links})",
            "GPUs": f"{declared['gpus']:,}",
            "parts": f"{declared['connected_components']:,}",
        }
        body = "".join(
            f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in rows.items()
        )
        lists = "".join(
            f"<details><summary>{html.escape(title)} ({len(declared[key])})</summary><ul>"
            + "".join(f"<li>{html.escape(text)}</li>" for text in declared[key])
            + "</ul></details>"
            for key, title in (("assumed", "Assumed"), ("notes", "Notes"), ("warnings", "Warnings"))
            if declared[key]
        )
        return f"<div><b>{html.escape(self.name)}</b><table>{body}</table>{lists}</div>"


def _own(document: dict[str, Any], source: DocumentSource) -> dict[str, Any]:
    """Copy a document that the caller can change; one that was parsed from text is not the caller's."""
    return copy.deepcopy(document) if source.text is None else document
