"""The algorithms that come with astranb; importing this package registers them."""

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

from . import exchange as exchange
from . import fused as fused
from . import hierarchical as hierarchical

from . import ring as ring  # isort: skip
from . import allpairs as allpairs
from . import bruck as bruck
from . import doubling as doubling
from . import pull as pull
from . import send_receive as send_receive
from . import staged as staged
from . import switch as switch
from . import trees as trees
from .registry import ALGORITHMS

if TYPE_CHECKING:
    from .doubling import double as double
    from .doubling import halve as halve
    from .doubling import swing_peer as swing_peer
    from .hierarchical import by_nic as by_nic
    from .registry import Collective as Collective
    from .registry import Writer as Writer
    from .registry import find as find
    from .registry import ranks_of as ranks_of
    from .ring import around as around
    from .trees import Tree as Tree
    from .trees import below as below
    from .trees import chain as chain
    from .trees import double_tree as double_tree
    from .trees import hand_down as hand_down
    from .trees import reduce_up as reduce_up

__getattr__, __dir__ = lazy(__name__)

ALGORITHMS.seal()
