"""Sweeps: many points of an axes' product, run in processes, kept in files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .columns import AxisColumn as AxisColumn
    from .columns import FigureColumn as FigureColumn
    from .columns import axis_columns as axis_columns
    from .columns import figure_columns as figure_columns
    from .columns import figure_text as figure_text
    from .columns import unit_of as unit_of
    from .heat import heat_cells as heat_cells
    from .points import DONE as DONE
    from .points import FAILED as FAILED
    from .result import INFEASIBLE as INFEASIBLE
    from .result import NOT_RUN as NOT_RUN
    from .result import stage_text as stage_text
    from .sensitivity import AxisEffect as AxisEffect

__getattr__, __dir__ = lazy(__name__)
