"""The workbench of a workload: ranks, operations and chunks where a collective's has SMs and lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from astranb.core.extras import needs_extra

if TYPE_CHECKING:
    from ._bench import WorkloadWorkbench as WorkloadWorkbench

__all__ = ["WorkloadWorkbench"]


def __getattr__(name: str) -> Any:
    """Load anywidget only with a widget: pages and pictures do without."""
    if name != "WorkloadWorkbench":
        message = f"module 'astranb.widgets.workload' has no attribute {name!r}"
        raise AttributeError(message)
    with needs_extra("anb.Workbench"):
        from ._bench import WorkloadWorkbench
    return WorkloadWorkbench
