"""Traces: their bytes, columns, files and checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .columns import Distinct as Distinct
    from .columns import Lists as Lists
    from .group_file import read_groups as read_groups
    from .message import attribute_of as attribute_of
    from .rank_trace import Trace as Trace
    from .schema import KIND_OF as KIND_OF
    from .schema import VERSION as VERSION
    from .schema import Attribute as Attribute
    from .schema import CollectiveType as CollectiveType
    from .schema import Node as Node
    from .schema import NodeType as NodeType
    from .schema import Plain as Plain
    from .template import Hole as Hole
    from .template import Template as Template
    from .trace_builder import TraceBuilder as TraceBuilder
    from .trace_file import read as read
    from .trace_file import read_present as read_present
    from .trace_file import read_ranks as read_ranks
    from .trace_file import write_ranks as write_ranks
    from .trace_summary import as_document as as_document
    from .trace_summary import summary as summary
    from .validity import check as check
    from .validity import ordered as ordered
    from .validity import topological_order as topological_order
    from .wire import Ints as Ints

__getattr__, __dir__ = lazy(__name__)
