"""Groups of a kernel's arguments: arrays and numbers that belong together, passed under one name.

A group is a `typing.NamedTuple`. Compiled code passes its fields like separate arguments; Python spends some 0.3 µs
more on each of them. For the smallest pushes there are the records of `jit.vectors.fields`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import types
from numba.core.datamodel.models import TupleModel
from numba.core.typeconv import Conversion
from numba.extending import lower_cast, register_model

if TYPE_CHECKING:
    from typing import NamedTuple

__all__ = ["group"]


class GroupType(types.NamedTuple):  # type: ignore[misc]  # Numba is untyped
    """The type of a group in a kernel's signature.

    Numba converts an array that may be written to one that may not, but not within a named tuple: here it does.
    """

    def can_convert_from(self, context: Any, other: Any) -> Any:  # noqa: ANN401
        """Return how well another group converts to this one: as its worst field; None if it does not."""
        if not isinstance(other, types.BaseNamedTuple) or other.instance_class is not self.instance_class:
            return None
        kinds = [context.can_convert(one, to) for one, to in zip(other, self, strict=True)]
        return None if None in kinds else max(Conversion.safe, *kinds)


register_model(GroupType)(TupleModel)


@lower_cast(types.BaseNamedTuple, GroupType)  # type: ignore[untyped-decorator]
def _convert(context: Any, builder: Any, given: Any, wanted: Any, value: Any) -> Any:  # noqa: ANN401
    fields = (builder.extract_value(value, at) for at in range(len(wanted)))
    parts = [context.cast(builder, one, kind, to) for one, kind, to in zip(fields, given, wanted, strict=True)]
    return context.make_tuple(builder, wanted, parts)


def group(fields: type[NamedTuple], *kinds: Any) -> Any:  # noqa: ANN401
    """Return the type of a group for a kernel's signature: its class, and the type of each field."""
    return GroupType(kinds, fields)
