"""A named tuple of tables as one word: what kernels pass to each other.

Numba passes a tuple of arrays by value, seven words for each array: a call that takes thirty
tables copies two hundred words. :func:`handle` stores address and length of every table in a
block of memory, once for each call from Python, and returns the address of that block. Kernels
read its fields as they read those of the tuple (``m.links[link].free_at_ps``).
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

__all__ = ["Handle", "handle"]

_T = TypeVar("_T")


class Handle:
    """In compiled code, the address of a named tuple of tables; in plain Python, the tuple itself."""

    def __call__(self, tables: _T) -> _T:
        """Return the tuple."""
        return tables

    def intrinsic(self) -> Any:
        """Return the Numba intrinsic that makes a handle; Numba learns the type of what it returns."""
        return _intrinsic()


handle = Handle()


@cache
def _intrinsic() -> Any:
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.core.typing.templates import AttributeTemplate
    from numba.extending import infer_getattr, lower_getattr_generic, models, register_model
    from numba.extending import intrinsic as make
    from numba.np.arrayobj import populate_array

    class Tables(types.Type):  # type: ignore[misc]
        def __init__(self, of: Any) -> None:
            self.of = of  # the named tuple, which may hold named tuples
            super().__init__(f"handle({of})")

    register_model(Tables)(models.OpaqueModel)
    word = ir.IntType(64)

    def leaves(of: Any) -> list[Any]:
        """Return the arrays of a tuple and of the tuples in it, in order."""
        return [leaf for t in of.types for leaf in (leaves(t) if isinstance(t, types.NamedTuple) else [t])]

    @infer_getattr
    class _Fields(AttributeTemplate):  # type: ignore[misc]
        key = Tables

        def generic_resolve(self, tables: Any, name: str) -> Any:
            if name not in tables.of.fields:
                return None
            found = tables.of.types[tables.of.fields.index(name)]
            return Tables(found) if isinstance(found, types.NamedTuple) else found

    @lower_getattr_generic(Tables)  # type: ignore[untyped-decorator]
    def _get(context: Any, builder: Any, of: Any, value: Any, name: str) -> Any:
        of = of.of
        index = of.fields.index(name)
        before = of.types[:index]
        place = sum(len(leaves(t)) if isinstance(t, types.NamedTuple) else 1 for t in before)
        words = builder.bitcast(value, word.as_pointer())
        found = of.types[index]
        if isinstance(found, types.NamedTuple):
            first = builder.gep(words, [word(2 * place)])
            return builder.bitcast(first, ir.IntType(8).as_pointer())

        def load(number: int) -> Any:
            loaded = builder.load(builder.gep(words, [word(number)]))
            # Nothing writes to the block: stores to tables need not be assumed to change it.
            loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
            return loaded

        array = context.make_array(found)(context, builder)
        size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(found.dtype)))
        populate_array(
            array,
            data=builder.inttoptr(load(2 * place), array.data.type),
            shape=(load(2 * place + 1),),
            strides=(size,),
            itemsize=size,
            meminfo=None,
        )
        return array._getvalue()  # noqa: SLF001 - Numba's own name

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        of = signature.args[0]
        block = cgutils.alloca_once(builder, ir.ArrayType(word, 2 * len(leaves(of))))
        words = builder.bitcast(block, word.as_pointer())
        place = 0

        def store(of: Any, value: Any) -> None:
            nonlocal place
            for index, kind in enumerate(of.types):
                one = builder.extract_value(value, index)
                if isinstance(kind, types.NamedTuple):
                    store(kind, one)
                    continue
                array = context.make_array(kind)(context, builder, one)
                data = builder.ptrtoint(array.data, word)
                builder.store(data, builder.gep(words, [word(2 * place)]))
                length = builder.extract_value(array.shape, 0)
                builder.store(length, builder.gep(words, [word(2 * place + 1)]))
                place += 1

        store(of, args[0])
        byte = ir.IntType(8).as_pointer()
        # Reads of the block are marked as invariant, so LLVM might move them before the stores
        # above. An empty instruction between hides that the two addresses are the same.
        same = ir.InlineAsm(ir.FunctionType(byte, [byte]), "", "=r,0,~{memory}", side_effect=True)
        return builder.call(same, [builder.bitcast(block, byte)])

    def typed(_context: Any, of: Any) -> Any:
        return Tables(of)(of), generate

    return make(typed)
