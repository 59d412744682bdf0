"""Options of the index structures, by the papers' own names: objects that ``algorithm=`` takes."""

from __future__ import annotations

from slidejoin.spec.options import *  # noqa: F403 - the same names, where users look for them
from slidejoin.spec.options import __all__  # noqa: F401
