"""Models by parallelism: the operations of every rank in a step of training or inference.

A model is data with public numbers, parallelism a few degrees. They determine the operations of
every rank, their costs and the messages between them, as Chakra traces or for a simulation.
"""

from __future__ import annotations

from astranb.chakra.scaling.parallelism import Parallelism

from .cluster import Cluster, assumed_system, machine
from .convolutional import CONVOLUTIONAL, Convolutional, ConvolutionalLayer
from .dlrm import DLRM, Dlrm
from .job import MODES, Job
from .library import MODELS, TRANSFORMERS, read_model
from .memory import MEMORY_PARTS, RankMemory
from .program import StageProgram
from .stage import Stage
from .step import ModelStep, workload
from .transformer import Transformer

__all__ = [
    "CONVOLUTIONAL",
    "DLRM",
    "MEMORY_PARTS",
    "MODELS",
    "MODES",
    "TRANSFORMERS",
    "Cluster",
    "Convolutional",
    "ConvolutionalLayer",
    "Dlrm",
    "Job",
    "ModelStep",
    "Parallelism",
    "RankMemory",
    "Stage",
    "StageProgram",
    "Transformer",
    "assumed_system",
    "machine",
    "read_model",
    "workload",
]
