"""The embedded example of the README does what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.nojit
def test_embedded_example_prints_what_the_readme_shows(capsys):
    example = EXAMPLES[0]
    shown = "".join(f"{line[2:]}\n" for line in example.splitlines() if line.startswith("# "))
    exec(compile(example, "README.md", "exec"), {})  # noqa: S102 - the project's own text
    assert capsys.readouterr().out == shown


def test_examples_are_short_and_compile():
    assert len(EXAMPLES) == 2
    for example in EXAMPLES:
        compile(example, "README.md", "exec")
        assert len([line for line in example.splitlines() if line and not line.startswith("#")]) <= 12
