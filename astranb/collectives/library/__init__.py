"""The algorithms that come with astranb; importing this package registers them."""

from . import exchange as exchange
from . import fused as fused
from . import hierarchical as hierarchical

from . import ring as ring  # isort: skip
from . import allpairs as allpairs
from . import bruck as bruck
from . import doubling as doubling
from . import pull as pull
from . import send_receive as send_receive
from . import switch as switch
from . import trees as trees
from .registry import ALGORITHMS

ALGORITHMS.seal()
