"""Layout of a system in a picture: deterministic, from the fabric alone."""

from .bundles import bundle_name, bundle_of, describe
from .collapse import Detail, Units
from .layout import lay_out
from .parts import Box, Frame, Layout

__all__ = ["Box", "Detail", "Frame", "Layout", "Units", "bundle_name", "bundle_of", "describe", "lay_out"]
