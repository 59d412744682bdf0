"""The kernels on processors without AVX2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slidejoin.jit.vectors import vectors

GENERIC = """
import sys, types
package = types.ModuleType("slidejoin")  # the kernels alone: compiling all others would take several times as long
package.__path__ = [sys.argv[1]]
sys.modules["slidejoin"] = package
from slidejoin.jit.vectors import vectors
from tests.kernels import cells, test_vectors, test_weaving
assert vectors.PORTABLE
assert vectors.put_lanes is not vectors._permuted
for seed in range(200):
    test_vectors.check_lanes(seed)
test_vectors.test_every_mask_puts_its_lanes_in_order(test_vectors.put)
"""

KERNELS = """
for seed in range(200):
    test_weaving.check_weaving(seed, 9, 2)
    test_weaving.check_checks(seed, (1, 2), 5)
for name in cells.DOMAINS:
    for seed in range(20):
        cells.check_table(seed, name, [0, 2, 16, 31][seed % 4], [1, 3, 16, 40][seed % 4], cells.FIRSTS[seed % 5])
"""


@pytest.mark.nightly  # half a minute of compilation for another processor
@pytest.mark.parametrize("more", ["", KERNELS], ids=["vectors", "kernels"])
def test_a_processor_without_avx2(tmp_path: Path, more: str) -> None:
    root = Path(__file__).resolve().parents[2]
    told = {
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CACHE_DIR": str(tmp_path),
        "NUMBA_DISABLE_JIT": "0",
        "PYTHONPATH": os.pathsep.join([str(root), str(root / "src")]),
    }
    sources = Path(vectors.__file__).resolve().parents[2]
    ran = subprocess.run(
        [sys.executable, "-c", GENERIC + more, str(sources)],
        env=os.environ | told,
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
