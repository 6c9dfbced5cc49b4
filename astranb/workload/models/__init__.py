"""Models by parallelism: the operations of every rank in a step of training or inference.

A model is data with public numbers, parallelism a few degrees. They determine the operations of
every rank, their costs and the messages between them, as Chakra traces or for a simulation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.chakra.scaling import Parallelism as Parallelism
from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .cluster import Cluster as Cluster
    from .cluster import assumed_system as assumed_system
    from .cluster import machine as machine
    from .convolutional import CONVOLUTIONAL as CONVOLUTIONAL
    from .convolutional import Convolutional as Convolutional
    from .convolutional import ConvolutionalLayer as ConvolutionalLayer
    from .costs import Costs as Costs
    from .dlrm import DLRM as DLRM
    from .dlrm import Dlrm as Dlrm
    from .fits import PER_NODE as PER_NODE
    from .fits import does_not_fit as does_not_fit
    from .fits import fullest as fullest
    from .fits import options_of as options_of
    from .fits import proposal as proposal
    from .fits import require_memory as require_memory
    from .job import MODES as MODES
    from .job import Job as Job
    from .library import MODELS as MODELS
    from .library import TRANSFORMERS as TRANSFORMERS
    from .library import find_model as find_model
    from .library import read_model as read_model
    from .memory import MEMORY_PARTS as MEMORY_PARTS
    from .memory import RankMemory as RankMemory
    from .memory import memory_lines as memory_lines
    from .memory import rank_memory as rank_memory
    from .passes import PassWriter as PassWriter
    from .pipeline import TOKEN_BYTES as TOKEN_BYTES
    from .pipeline import check as check
    from .pipeline import write_training as write_training
    from .program import TAGS as TAGS
    from .program import Cost as Cost
    from .program import StageProgram as StageProgram
    from .program import Unit as Unit
    from .schedules import bubble_of as bubble_of
    from .schedules import stage_order as stage_order
    from .stage import Stage as Stage
    from .step import ModelStep as ModelStep
    from .step import workload as workload
    from .transformer import Transformer as Transformer
    from .weights import EMBEDDING as EMBEDDING
    from .weights import HEAD as HEAD
    from .weights import Held as Held
    from .weights import cached_width as cached_width
    from .weights import chunks as chunks
    from .weights import shares as shares
    from .weights import spread as spread
    from .weights import units as units

__getattr__, __dir__ = lazy(__name__)
