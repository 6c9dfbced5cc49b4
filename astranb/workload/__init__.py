"""Floor 4: what is run. Operations of ranks, and the system layer that makes messages of them.

The folder itself makes a workload of a list of operations: ``anb.workload([...])``.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from . import astrasim1 as astrasim1
    from . import astrasim2 as astrasim2
    from . import jobs as jobs
    from . import kernels as kernels
    from . import models as models
    from . import serving as serving
    from . import systolic as systolic
    from .operation_list import Compute as Compute
    from .operation_list import OperationList as OperationList
    from .operation_list import compute as compute
    from .operation_list import workload as workload

__getattr__, __dir__ = lazy(__name__)


class _Folder(ModuleType):
    """A folder that is called to make a workload."""

    def __call__(self, *operations: Any, **options: Any) -> Any:
        """Return a workload: parameters as of :func:`.operation_list.workload`."""
        from .operation_list import workload

        return workload(*operations, **options)


sys.modules[__name__].__class__ = _Folder
