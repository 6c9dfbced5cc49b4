"""A pytest plugin: the kernels of tested notebooks have sockets of their own (``-p tests.notebook_kernels``).

jupyter_client asks for free TCP ports and frees them again before the kernel takes them. When two test
processes start kernels at the same moment, both can be given one port: if it is the one of outputs, the
second kernel lives on unheard, and its notebook fails after a minute with "Kernel didn't respond".
Sockets in a folder cannot be mixed up.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path

import nbval.kernel
from jupyter_client.manager import KernelManager
from traitlets import default

_numbers = itertools.count()
_folder = tempfile.TemporaryDirectory(prefix="kernels-", ignore_cleanup_errors=True)


class SocketFolderManager(KernelManager):
    """A kernel manager whose kernel listens on files of a folder that only this process uses."""

    @default("transport")
    def _files(self) -> str:
        return "ipc"

    @default("ip")
    def _own_name(self) -> str:
        return str(Path(_folder.name) / str(next(_numbers)))


if os.name == "posix":  # elsewhere ZeroMQ has no such sockets
    nbval.kernel.KernelManager = SocketFolderManager
