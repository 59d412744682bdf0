"""The words of a push's work that Python sets and reads: where they are in the record of kernels.

What each is for is said there, in `operator.fused.kernels.work`. Those of a role are counted from where it begins:
the right role's `first` is ``words[ROLES["right"] + FIRST]``, and how many probes it has is
``words[ROLES["right"] + PROBES + LENGTH]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.jit.vectors.fields import ARRAY, word
from slidejoin.operator.fused.kernels.work import LEFT, PROGRAM, RIGHT, ROLE, WORK

if TYPE_CHECKING:
    from slidejoin.sides import Side

LENGTH = word(ARRAY, "length")

# -- the work of a push ------------------------------------------------------------------------------------------------

ROLES: dict[Side, int] = {"left": word(WORK, "roles", LEFT), "right": word(WORK, "roles", RIGHT)}
"""Where the words of each role begin; those below are counted from there."""

TABLE = tuple(word(ROLE, "table", part) for part in ("slots", "pool", "state"))
ELIGIBLE, FIRST, VIEWED, COUNTS = (word(ROLE, name) for name in ("eligible", "first", "viewed", "counts"))
PROBES, MATCHES, STORED = (word(ROLE, name) for name in ("probes", "matches", "stored"))
ORDINAL, FLOOR, INSERTED = (word(ROLE, name) for name in ("ordinal", "floor", "inserted"))
TIMES, TIME_COLUMN, BEFORE, AFTER = (word(ROLE, name) for name in ("times", "time_column", "before", "after"))
STORED_COLUMNS, REACH, WIDE = (word(ROLE, name) for name in ("stored_columns", "reach", "wide"))
BEYOND, DONE, TOTAL = (word(ROLE, name) for name in ("beyond", "done", "total"))
LOWER, UPPER = word(ROLE, "lower"), word(ROLE, "upper")
CHECKED_LOW, CHECKED_HIGH = word(ROLE, "checked_low"), word(ROLE, "checked_high")
FURTHER_LOW, FURTHER_HIGH = word(ROLE, "further_low"), word(ROLE, "further_high")
FURTHER_BETWEEN, FURTHER_COLUMN = word(ROLE, "further_between"), word(ROLE, "further_column")
SHIFTED = tuple(word(ROLE, "shifted", part) for part in ("one", "two", "shifts"))
SHIFTS_AT = word(ROLE, "shifted", "shifts")
BOUNDS = tuple(word(ROLE, "bounds", part) for part in ("low", "high", "lows", "highs"))
MARKS, BLOCKS, FIRST_BLOCK = (word(ROLE, name) for name in ("marks", "blocks", "first_block"))
"""Words of a role; each of TABLE is an ARRAY, and so are PROBES, MATCHES, STORED, MARKS and BLOCKS."""

COUNTING, ASIDE, WOVEN, GAVE_UP, TOOK = (word(WORK, name) for name in ("counting", "aside", "woven", "gave_up", "took"))
PROGRAM_AT = word(WORK, "program")
LINES = tuple(PROGRAM_AT + word(PROGRAM, part) for part in ("code", "constants", "columns"))
CODE_LENGTH, SIDES_AT, REGISTERS = (
    PROGRAM_AT + place
    for place in (word(PROGRAM, "code", "length"), word(PROGRAM, "sides"), word(PROGRAM, "registers"))
)
"""Words of both roles; each of LINES, the parts of a program, is an ARRAY."""
