"""Plans of a model on given GPUs: which fit, how long a step takes, and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .model_plans import PlanSearch as PlanSearch
    from .model_plans import suggest as suggest
    from .step_accounts import WAITS as WAITS
    from .step_accounts import account as account
    from .step_estimates import estimate_step as estimate_step

__getattr__, __dir__ = lazy(__name__)
