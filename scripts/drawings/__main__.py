"""Write the drawings of the pages to docs/images: ``python -m scripts.drawings``."""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.drawings.ideas import cell_join, pan_join, pim_tree, split_join, spo_join
from scripts.drawings.on_spark import exactly_once, pipeline, sequencer, strategies
from scripts.drawings.streams import join_types, the_join, watermark, windows

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
DRAWINGS = (
    the_join,
    windows,
    watermark,
    join_types,
    pipeline,
    sequencer,
    strategies,
    exactly_once,
    pim_tree,
    split_join,
    cell_join,
    spo_join,
    pan_join,
)


def main() -> int:
    """Write all of them, and print their paths."""
    for draw in DRAWINGS:
        for path in draw().write(IMAGES):
            sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
