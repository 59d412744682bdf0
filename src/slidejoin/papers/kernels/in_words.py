"""Groups of arrays and numbers in words: a structure sets them once, and a call of a kernel passes one array for all.

A group is a `NamedTuple`. In words an array of one dimension is its address and its length, and a number is itself; see
`slidejoin.papers.structure.words_of`, which writes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from slidejoin.jit.compiling import group
from slidejoin.jit.vectors.memory import i32_at, i64_at

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NamedTuple

__all__ = ["reader"]

WORD = ir.IntType(64)


def reader(fields: type[NamedTuple], *kinds: Any) -> Callable[[Any], Any]:
    """Return a function for kernels that returns the group of which there are words.

    Its arrays are as after `borrowed`: whoever passes the words keeps them alive.

    Parameters
    ----------
    fields
        The class of the group.
    kinds
        The type of each field: of an array of int64 or int32, or int64.
    """
    if numba.config.DISABLE_JIT:
        views = {types.int64: i64_at, types.int32: i32_at}

        def plain(words: Any) -> Any:  # noqa: ANN401
            rest = iter(words.tolist())
            return fields._make(
                views[kind.dtype](next(rest), next(rest)) if isinstance(kind, types.Array) else next(rest)
                for kind in kinds
            )

        return plain

    made = group(fields, *kinds)

    @intrinsic
    def read(_typing: Any, words: Any) -> Any:  # noqa: ANN401
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
            data = context.make_array(signature.args[0])(context, builder, args[0]).data
            places = iter(range(2 * len(kinds)))

            def word() -> Any:  # noqa: ANN401
                return builder.load(builder.gep(data, [WORD(next(places))]))

            def array_of(kind: Any) -> Any:  # noqa: ANN401
                array, size = context.make_array(kind)(context, builder), WORD(kind.dtype.bitwidth // 8)
                pointer = builder.inttoptr(word(), array.data.type)
                populate_array(array, pointer, [word()], [size], size, meminfo=None)
                return array._getvalue()  # noqa: SLF001 - as Numba's own code does

            values = [array_of(kind) if isinstance(kind, types.Array) else word() for kind in kinds]
            return context.make_tuple(builder, signature.return_type, values)

        return made(words), generate

    compiled: Callable[[Any], Any] = read
    return compiled
