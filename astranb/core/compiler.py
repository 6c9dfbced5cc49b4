"""Numba and LLVM: machine code of an entry, for this processor or for others.

This module uses private parts of Numba, because Numba has no public means to keep callees
from becoming machine code by themselves (a third of the time) or to hand out an entry's LLVM
module. ``pyproject.toml`` caps the versions that this was tested with. With a version where it
does not work, :func:`fallback` compiles with Numba's public interface alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from .code import sealed
from .handle import Handle, handle
from .jit import BOUNDS, Kernel, Prefetch
from .targets import Target, host

__all__ = ["Unsupported", "emit", "fallback", "lower", "work"]

_SECONDS_TO_START = 2.0
_SECONDS_A_BYTE = 1e-3
"""Of bytecode. Both were measured on a processor of 2.5 GHz."""


class Unsupported(Exception):
    """The installed Numba lacks a private part that :func:`lower` needs."""


def work(function: Any) -> float:
    """Estimate how many seconds a kernel takes to compile, from the size of all kernels it calls.

    Parameters
    ----------
    function : kernel
        It is not compiled.
    """
    found: dict[Any, int] = {}
    left = [function.function]
    while left:
        function = left.pop()
        code = function.__code__
        found[code] = len(code.co_code)
        callees = (function.__globals__.get(name) for name in code.co_names)
        left += [k.function for k in callees if isinstance(k, Kernel) and k.function.__code__ not in found]
    return _SECONDS_TO_START + sum(found.values()) * _SECONDS_A_BYTE


def lower(function: Any, parts: Sequence[Any], symbol: str, *, portable: bool = False) -> str:
    """Compile an entry with Numba as far as optimised LLVM code, as text.

    Parameters
    ----------
    function : kernel
        What is compiled, with all kernels that it calls.
    parts : sequence of dtype or tuple
        The dtypes of the arrays that it takes; nested as the arguments are.
    symbol : str
        The name of the C function to be made: it takes the arrays' lengths and their addresses.
    portable : bool
        Optimise for no special processor. It must be the same for all calls of a process.

    Raises
    ------
    Unsupported
        Numba's private parts are not as expected.
    """
    import numba
    from numba.core.errors import NumbaError

    if portable:
        numba.config.CPU_NAME, numba.config.CPU_FEATURES = "generic", ""
    try:
        return _lower(function, parts, symbol)
    except NumbaError:
        raise  # an error of the kernel's own
    except Exception as error:
        raise Unsupported(f"Numba {numba.__version__}: {type(error).__name__}: {error}") from error


def _lower(function: Any, parts: Sequence[Any], symbol: str) -> str:
    import numba
    from numba import types
    from numba.core.registry import cpu_target
    from numba.extending import typeof_impl

    _register_kernels(public=False)
    names: list[str] = []
    dtypes: list[Any] = []
    scope = {"carray": numba.carray, "function": _dispatcher(function, public=False)}

    def views(parts: Sequence[Any]) -> str:
        """Write the arguments: arrays, and tuples of them."""
        found = []
        for part in parts:
            if not isinstance(part, tuple):
                found.append(f"carray(a{len(names)}, (lengths[{len(names)}],))")
                names.append(f"a{len(names)}")
                dtypes.append(part)
                continue
            kind = type(part).__name__ if hasattr(part, "_make") else ""
            scope[kind] = type(part)
            found.append(f"{kind}({views(part)},)")
        return ", ".join(found)

    # A C callback has a fixed number of arguments, so that its text depends on them.
    arguments = views(parts)
    exec(f"def call(lengths, {', '.join(names)}):\n    return function({arguments})", scope)  # noqa: S102
    pointers = [types.CPointer(numba.from_dtype(d)) for d in dtypes]
    signature = types.int64(types.CPointer(types.int64), *pointers)
    intrinsics = {Prefetch: _prefetch(), Handle: handle.intrinsic()}
    cpu_target.typing_context.refresh()
    for marker, intrinsic in intrinsics.items():
        found = cpu_target.typing_context.resolve_value_type(intrinsic)
        typeof_impl.register(marker)(lambda _value, _context, found=found: found)
    with _no_machine_code(cpu_target.target_context):
        callback = numba.cfunc(signature, error_model="numpy")(scope["call"])
    return _reduced(callback._library._final_module, callback.native_name, symbol)  # noqa: SLF001


def _reduced(module: Any, wrapper: str, symbol: str) -> str:
    """Remove long names and copies of inlined kernels: up to nine tenths of an object file."""
    import llvmlite.binding as llvm

    module.get_function(wrapper).name = symbol
    for number, value in enumerate((*module.functions, *module.global_variables)):
        if not value.is_declaration and value.name != symbol:
            value.linkage, value.name = "internal", f"_{number}"
    options = llvm.create_pipeline_tuning_options()
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(host().machine(), options))
    return str(module)


@contextmanager
def _no_machine_code(context: Any) -> Iterator[None]:
    """Keep Numba from handing what it compiles to its engine, and from wrapping it for Python."""
    codegen = context.codegen()
    libraries = codegen._library_class  # noqa: SLF001
    link, finalize = context.get_executable, libraries._finalize_specific  # noqa: SLF001
    context.get_executable = _stand_in
    codegen._add_module = lambda _module: None  # noqa: SLF001
    libraries._finalize_specific = lambda _library: None  # noqa: SLF001
    try:
        yield
    finally:
        context.get_executable = link
        del codegen._add_module  # noqa: SLF001
        libraries._finalize_specific = finalize  # noqa: SLF001


def _stand_in(library: Any, description: Any, environment: Any) -> Any:
    """Return what Numba keeps for a function that Python could call: no code does, and it is fatal."""
    from numba import _dynfunc

    fatal = ctypes.cast(ctypes.pythonapi.Py_FatalError, ctypes.c_void_p).value
    module, name = description.lookup_module(), description.qualname.rpartition(".")[2]
    return _dynfunc.make_function(module, name, "", fatal, environment, (library,))


def _prefetch() -> Any:
    """Return the intrinsic: LLVM's ``llvm.prefetch`` of the row's first byte, to be written."""
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


def emit(text: str, target: Target) -> bytes:
    """Make an object file from LLVM code.

    Parameters
    ----------
    text : str
        From :func:`lower`. Its types have the same sizes and alignments on all portable targets,
        so one text serves all of them.
    target : Target
        Whose object file.

    Returns
    -------
    bytes
        As :func:`.code.read_object` reads it: a checksum, a line with the names of external symbols,
        the object file.

    Raises
    ------
    Unsupported
        The code holds instructions of another processor, or calls that only Numba's engine links.
    """
    import llvmlite.binding as llvm

    machine = target.machine()
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = target.triple, str(machine.target_data)
    externals = [g.name for g in (*module.functions, *module.global_variables) if g.is_declaration]
    foreign = "llvm.aarch64." if target.triple.startswith("x86") else "llvm.x86."
    if unfit := [name for name in externals if name.startswith((foreign, ".numba."))]:
        raise Unsupported(f"{unfit[0]} in code for {target.name}")
    header = " ".join(name for name in externals if not name.startswith("llvm."))
    return sealed(header.encode() + b"\n" + machine.emit_object(module))


def fallback(function: Any, folder: Path) -> Callable[..., int]:
    """Compile an entry with Numba's public interface and cache.

    Parameters
    ----------
    function : kernel
        What is compiled.
    folder : Path
        Where Numba keeps its cache. Numba does not notice edits in callees; the folder's name must.

    Returns
    -------
    callable
        Takes the arrays.
    """
    import numba

    _register_kernels(public=True)
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    try:
        return _dispatcher(function, public=True, kept=True)
    finally:
        numba.config.CACHE_DIR = before


def _register_kernels(*, public: bool) -> None:
    """Register kernels with Numba; in `public` mode prefetch and handle are plain functions."""
    from numba import types
    from numba.extending import typeof_impl

    @typeof_impl.register(Kernel)  # type: ignore[untyped-decorator]
    def _typeof_kernel(value: Kernel[..., Any], _context: Any) -> Any:
        return types.Dispatcher(_dispatcher(value, public=public))

    if public:
        typeof_impl.register(Prefetch)(lambda _value, _context: types.Dispatcher(_plain()[0]))
        typeof_impl.register(Handle)(lambda _value, _context: types.Dispatcher(_plain()[1]))


@cache
def _plain() -> tuple[Any, Any]:
    """Return the Numba dispatchers of a prefetch that does nothing, and of a handle that is its tuple."""
    import numba

    return numba.njit(lambda _table, _row: None), numba.njit(lambda tables: tables)


def _dispatcher(kernel: Kernel[..., Any], *, public: bool, kept: bool = False) -> Any:
    """Return the Numba dispatcher of a kernel, made once; `kept` is for the one that Python calls."""
    import numba

    found = kernel.dispatchers.get(public)
    if found is None:
        # The arrays belong to Python: counting references to them took half of the time. Python
        # never calls a kernel: no wrappers.
        private = {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        found = kernel.dispatchers[public] = numba.njit(
            nogil=True,
            error_model="numpy",
            boundscheck=BOUNDS,
            forceinline=kernel.inline and not kept and not BOUNDS,
            **({"cache": True} if kept else {} if public else private),
        )(kernel.function)
    return found
