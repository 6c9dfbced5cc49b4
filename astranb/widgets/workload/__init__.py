"""The workbench of a workload: ranks, operations and chunks where a collective's has SMs and lines."""

from ._bench import WorkloadWorkbench

__all__ = ["WorkloadWorkbench"]
