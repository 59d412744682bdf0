"""The systems of five papers, loaded when a join asks for one: the core imports none of them.

Each room has the options, structures, topologies and kernels of one paper. Its ``__init__`` registers them by name; a
structure and its kernels are imported when the first join is made with it.
"""
# ruff: noqa: F401, I001 - rooms register themselves; the order is that of `slidejoin.algorithms()` and `topologies()`

from __future__ import annotations

import slidejoin.papers.split_join
import slidejoin.papers.cell_join
import slidejoin.papers.pim_tree
import slidejoin.papers.panjoin
import slidejoin.papers.spo_join
