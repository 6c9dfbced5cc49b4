"""A JupyterLab workbench on a fast, exact simulator of distributed machine learning.

>>> import astranb as anb
>>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("4 KiB", algorithm="allpairs"))
>>> sim.run().why
'end'
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .core.host import prepare
from .core.lazy import lazy
from .core.version import __version__ as __version__

prepare()

if TYPE_CHECKING:
    from . import chakra as chakra
    from . import collectives as collectives
    from . import explore as explore
    from . import export as export
    from . import gpu as gpu
    from . import infragraph as infragraph
    from . import mcp as mcp
    from . import net as net
    from . import traffic as traffic
    from .collectives import all_gather as all_gather
    from .collectives import all_reduce as all_reduce
    from .collectives import all_to_all as all_to_all
    from .collectives import reduce_scatter as reduce_scatter
    from .core import errors as errors
    from .core import units as units
    from .core.errors import InputError as InputError
    from .engine.cacheline import beside as beside
    from .net import Fault as Fault
    from .net import Network as Network
    from .sim import Comparison as Comparison
    from .sim import Simulation as Simulation
    from .sim import compare as compare
    from .widgets import Editor as Editor
    from .widgets import Runs as Runs
    from .widgets import SideBySide as SideBySide
    from .widgets import Study as Study
    from .widgets import TraceGraph as TraceGraph
    from .widgets import TraceTimeline as TraceTimeline
    from .widgets import Workbench as Workbench
    from .workload import astrasim1 as astrasim1
    from .workload import astrasim2 as astrasim2
    from .workload import compute as compute
    from .workload import models as models
    from .workload import workload as workload
    from .workload.jobs import Job as Job
    from .workload.jobs import Jobs as Jobs

# Importing astranb is light: views, SDKs and compilers are loaded when they are used.
__getattr__, __dir__ = lazy(
    __name__,
    {
        "load": "write anb.Simulation.load(path), of an infrastructure anb.infragraph.load(path)",
        "run": "write anb.Simulation('dgx-h100', anb.all_reduce('1 MiB')), and then its run()",
    },
)


def load_ipython_extension(shell: Any) -> None:
    """Register ``%%collective`` with IPython: what ``%load_ext astranb`` calls."""

    def collective(line: str, cell: str) -> Any:
        """Verify the program in this cell, and give it a name that ``algorithm=`` takes.

        %%collective [NAME] [--infra dgx-h100] [--size 64KiB] [--collective all_reduce]
                     [--protocol Simple] [--channels N] [--root R] [--param NAME=VALUE] [--show]

        The cell defines a function over a Program, or is the body of such a function, with the
        program as `p`. --param gives a parameter of the function its value. The cell sees copies of
        the notebook's plain variables, and its functions. With --show it opens in an editor that
        verifies it as you type, and simulates it.
        """
        from .widgets.magic import run_cell  # views are loaded when the magic is used

        return run_cell(shell, line, cell)

    shell.register_magic_function(collective, "cell", "collective")


# In a notebook, the import registers the magic without %load_ext.
if (_shell := getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()) is not None:
    load_ipython_extension(_shell)
