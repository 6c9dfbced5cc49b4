"""The decorator for compiled kernels, and the machine code that a warm start loads.

A *kernel* is a small function over numbers and record arrays. Kernels call each other;
only a few *entries* are called from Python. An entry is compiled once with Numba, its
machine code is kept as an object file, and the next process loads that file with
llvmlite alone. Importing Numba and reading its own cache takes over a second, loading
the object file a tenth of that; the figures stand in ``docs/architecture.md``.

``code.py`` says where object files are kept, and when they are of no use any more.

``ASTRANB_JIT=0`` runs the same functions as plain Python, for a debugger.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar, cast, overload

import numpy as np

from .code import cache_folder
from .files import whole_file
from .handle import Handle, handle
from .progress import announce

__all__ = [
    "JIT",
    "Entry",
    "Kernel",
    "Records",
    "kernel",
    "prefetch",
]

JIT = os.environ.get("ASTRANB_JIT", "1") != "0"
"""Whether entries are compiled (``ASTRANB_JIT=0`` turns it off)."""

Records: TypeAlias = "np.recarray[Any, Any]"
"""A structured array with fields as attributes: ``links[i].free_at_ps``."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Kernel(Generic[_P, _R]):
    """A function that entries may call: plain Python here, inlined machine code there.

    Parameters
    ----------
    function : callable
        Takes and returns numbers and record arrays only.
    inline : bool
        Whether its code is inlined at every call.
    """

    def __init__(self, function: Callable[_P, _R], *, inline: bool) -> None:
        self.function = function
        self.inline = inline
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__module__ = function.__module__
        self.__wrapped__ = function
        self._dispatcher: Any = None

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Run it as plain Python (tests and debuggers do; the simulator calls an entry)."""
        return self.function(*args, **kwargs)

    def dispatcher(self) -> Any:
        """The Numba dispatcher of the function; imports Numba."""
        if self._dispatcher is None:
            import numba

            # Nobody calls it from Python: no wrappers.
            self._dispatcher = numba.njit(
                nogil=True,
                error_model="numpy",
                forceinline=self.inline,
                # The arrays belong to Python: counting references to them took half of the time.
                _nrt=False,
                no_cpython_wrapper=True,
                no_cfunc_wrapper=True,
            )(self.function)
        return self._dispatcher


@overload
def kernel(function: Callable[_P, _R]) -> Callable[_P, _R]: ...


@overload
def kernel(*, inline: bool) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...


def kernel(function: Any = None, *, inline: bool = True) -> Any:
    """Mark a function as a kernel.

    Parameters
    ----------
    function : callable
        A function over numbers, tables and named tuples of tables only.
    inline : bool
        Whether its code is inlined at every call. A kernel that is large, rare or called from
        many places is not: the loop then compiles faster and fits better into the caches.

    Returns
    -------
    callable
        The same function to a Python caller, and to Numba a compiled callee.
    """
    if function is None:
        return partial(kernel, inline=inline)
    return Kernel(function, inline=inline) if JIT else function


class Prefetch:
    """Tell the processor that a row of a table will be needed soon; as plain Python, nothing.

    A row that is not there is no fault: nothing is read.
    """

    def __call__(self, table: Records, row: int) -> None:
        """Do nothing."""

    def intrinsic(self) -> Any:
        """The Numba intrinsic: LLVM's ``llvm.prefetch`` of the row's first byte, to be written."""
        from llvmlite import ir
        from numba import types
        from numba.core import cgutils
        from numba.extending import intrinsic

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            table = context.make_array(signature.args[0])(context, builder, args[0])
            number = ir.IntType(32)
            byte = ir.IntType(8).as_pointer()
            place = builder.gep(builder.bitcast(table.data, byte), [builder.mul(args[1], table.itemsize)])
            kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            builder.call(function, [place, number(1), number(3), number(1)])
            return context.get_dummy_value()

        def typed(_context: Any, table: Any, row: Any) -> Any:
            return types.void(table, row), generate

        return intrinsic(typed)


prefetch = Prefetch()


class Entry:
    """A kernel that Python calls with arrays, compiled ahead and kept on disk.

    Parameters
    ----------
    function : callable
        A kernel whose arguments are one-dimensional arrays, and that returns an int.
    dtypes : sequence of dtype
        The dtype of each argument.

    Raises
    ------
    TypeError
        An argument of a call is not a contiguous array of the declared dtype.
    """

    def __init__(self, function: Callable[..., int], dtypes: Sequence[Any]) -> None:
        self.function = function
        self.name = function.__name__
        self.dtypes = tuple(np.dtype(d) for d in dtypes)
        self._code: Any = None
        self._keep: Any = None

    def __call__(self, *arrays: Any) -> int:
        """Run the kernel over the arrays, without the interpreter lock when compiled."""
        if not JIT:
            return int(self.function(*arrays))
        return self.bind(*arrays)()

    def bind(self, *arrays: Any) -> Callable[[], int]:
        """Check the arrays once and return a call that is as cheap as a C call.

        The arrays must stay where they are (they are kept alive by the call itself).
        """
        if len(arrays) != len(self.dtypes):
            message = f"{self.name} takes {len(self.dtypes)} arrays, got {len(arrays)}"
            raise TypeError(message)
        for position, (array, dtype) in enumerate(zip(arrays, self.dtypes, strict=True)):
            if array.dtype != dtype or array.ndim != 1 or not array.flags.c_contiguous:
                message = f"{self.name}: argument {position} must be a contiguous 1-D array of {dtype}"
                raise TypeError(message)
        if not JIT:
            return lambda: int(self.function(*arrays))
        self.load()
        code = self._code
        lengths = np.array([len(a) for a in arrays], np.int64)
        addresses = (lengths.ctypes.data, *(a.ctypes.data for a in arrays))

        def call(_keep: Any = (lengths, arrays)) -> int:
            return cast("int", code(*addresses))

        return call

    def load(self) -> None:
        """Make the machine code ready: from disk where it is, else compiled and kept."""
        if self._code is not None or not JIT:
            return
        folder = cache_folder()
        file = folder / f"{self.name}.o"
        if not file.exists():
            with announce(f"compiling {self.name} (once for each version of astranb; a minute or two)"):
                code = _compile(self)
                with whole_file(file) as out:  # two processes may compile at once
                    out.write(code)
        address = self._link(file)
        types = [ctypes.c_void_p] * (len(self.dtypes) + 1)
        self._code = ctypes.CFUNCTYPE(ctypes.c_int64, *types)(address)

    def _link(self, file: Path) -> int:
        """Load the object file with llvmlite and return the address of the entry."""
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        header, _, code = file.read_bytes().partition(b"\n")
        symbol, *externals = header.decode().split(" ")
        # Numba's wrapper refers to helpers that raise Python exceptions. A kernel raises
        # none, so that they are never called; the linker only wants an address for each.
        trap = ctypes.cast(ctypes.pythonapi.Py_FatalError, ctypes.c_void_p).value
        for name in externals:
            if llvm.address_of_symbol(name) is None:
                llvm.add_symbol(name, trap)
        machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(code))
        engine.finalize_object()
        self._keep = engine
        return cast("int", engine.get_function_address(symbol))


def _compile(entry: Entry) -> bytes:
    """Compile an entry with Numba; returns a header line (symbol, externals) and the object code."""
    import numba
    from numba import types
    from numba.core.registry import cpu_target
    from numba.extending import typeof_impl

    @typeof_impl.register(Kernel)  # type: ignore[untyped-decorator]
    def _typeof_kernel(value: Kernel[..., Any], _context: Any) -> Any:
        return types.Dispatcher(value.dispatcher())

    count = len(entry.dtypes)
    names = [f"a{i}" for i in range(count)]
    # A C callback has a fixed number of arguments, so that its text depends on the count.
    views = ", ".join(f"carray({name}, (lengths[{i}],))" for i, name in enumerate(names))
    scope = {"carray": numba.carray, "function": cast("Any", entry.function).dispatcher()}
    exec(f"def call(lengths, {', '.join(names)}):\n    return function({views})", scope)  # noqa: S102
    pointers = [types.CPointer(numba.from_dtype(d)) for d in entry.dtypes]
    signature = types.int64(types.CPointer(types.int64), *pointers)
    intrinsic = prefetch.intrinsic()
    handles = handle.intrinsic()
    cpu_target.typing_context.refresh()
    ahead = cpu_target.typing_context.resolve_value_type(intrinsic)
    typeof_impl.register(Prefetch)(lambda _value, _context: ahead)
    word = cpu_target.typing_context.resolve_value_type(handles)
    typeof_impl.register(Handle)(lambda _value, _context: word)
    context = cpu_target.target_context
    codegen = context.codegen()
    libraries = codegen._library_class  # noqa: SLF001 - Numba has no public way to any of this
    link, finalize = context.get_executable, libraries._finalize_specific  # noqa: SLF001
    # Kernels are linked into the entry as LLVM's code: machine code of each by itself, which
    # takes a third of the time, would never be called.
    context.get_executable = _stand_in
    codegen._add_module = lambda _module: None  # noqa: SLF001
    libraries._finalize_specific = lambda _library: None  # noqa: SLF001
    try:
        callback = numba.cfunc(signature, error_model="numpy")(scope["call"])
    finally:
        context.get_executable = link
        del codegen._add_module  # noqa: SLF001
        libraries._finalize_specific = finalize  # noqa: SLF001
    library = callback._library  # noqa: SLF001
    codegen._add_module(library._final_module)  # noqa: SLF001
    library._finalize_specific()  # noqa: SLF001
    _, _, (code, _) = library.serialize_using_object_code()
    module = library._final_module  # noqa: SLF001
    externals = [g.name for g in (*module.functions, *module.global_variables) if g.is_declaration]
    header = " ".join([callback._wrapper_name, *(e for e in externals if not e.startswith("llvm."))])  # noqa: SLF001
    return header.encode() + b"\n" + code


def _stand_in(library: Any, description: Any, environment: Any) -> Any:
    """What Numba keeps for a function that Python could call: here nobody does, and it is fatal."""
    from numba import _dynfunc

    fatal = ctypes.cast(ctypes.pythonapi.Py_FatalError, ctypes.c_void_p).value
    module, name = description.lookup_module(), description.qualname.rpartition(".")[2]
    return _dynfunc.make_function(module, name, "", fatal, environment, (library,))
