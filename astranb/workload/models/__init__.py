"""Models by parallelism: what every rank does in a step of training or of generating text.

A model is data with public numbers, parallelism a few degrees. From both follow the operations of
every rank, their costs and the messages between them: as Chakra traces, or simulated at once.
"""

from __future__ import annotations

from ._dlrm import DLRM, Dlrm
from ._gpu import DEFAULT_GPU, GPUS, Roofline, roofline
from ._job import MODES, Job
from ._layers import CONVOLUTIONAL, Convolutional, Layer
from ._library import TRANSFORMERS
from ._machine import Cluster, machine
from ._make import MODELS, workload
from ._model_file import read_model
from ._parallel import Parallelism
from ._transformer import Transformer
from ._workload import Workload

__all__ = [
    "CONVOLUTIONAL",
    "DEFAULT_GPU",
    "DLRM",
    "GPUS",
    "MODELS",
    "MODES",
    "TRANSFORMERS",
    "Cluster",
    "Convolutional",
    "Dlrm",
    "Job",
    "Layer",
    "Parallelism",
    "Roofline",
    "Transformer",
    "Workload",
    "machine",
    "read_model",
    "roofline",
    "workload",
]
