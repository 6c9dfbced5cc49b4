"""Node for tests: that of the group ``test``, which lies beside Python, else the system's."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

NODE = shutil.which("node", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
