"""Python blocks of the pages, each with the output that the page shows behind it, and how they are run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

BLOCK = re.compile(r"^```(?P<language>[^\n]*)\n(?P<body>.*?)^```$", flags=re.DOTALL | re.MULTILINE)
NEXT, NEXT_PAGE = "-- next block --", "-- next page --"

# What an activated environment, or the tests, would set.
ACTIVATED = ("PYTHONPATH", "PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON", "SPARK_HOME", "VIRTUAL_ENV")


@dataclass(frozen=True)
class Example:
    """A block of Python, and the block of text that follows it, if any."""

    code: str
    shown: str | None


def examples_of(page):
    """Return the Python examples of a page in their order; blocks marked ``py no-run`` are not among them."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = [(block["language"].strip(), block["body"], block.start(), block.end()) for block in BLOCK.finditer(text)]
    found = []
    for place, (language, body, _, end) in enumerate(blocks):
        if language != "python":
            continue
        following = blocks[place + 1] if place + 1 < len(blocks) else None
        adjacent = following is not None and following[0] == "text" and not text[end : following[2]].strip()
        found.append(Example(body, following[1] if following is not None and adjacent else None))
    return found


def run(code, folder):
    """Run code as a user would: a file outside of the checkout, a fresh process, no activated environment."""
    file = folder / "example.py"
    file.write_text(code, encoding="utf-8")
    own = str(Path(sys.executable).parent)
    environment = {name: value for name, value in os.environ.items() if name not in ACTIVATED}
    environment["PATH"] = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if part != own)
    done = subprocess.run(
        [sys.executable, str(file)], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "Warning:" not in done.stderr, done.stderr
    return done.stdout


def printed(examples, folder):
    """Run the examples of a page one after the other in one process, and return what each printed."""
    return run(one_after_the_other(examples), folder).split(f"{NEXT}\n")


def printed_by_pages(pages, folder):
    """Run pages of examples one after the other in one process, each with names and a folder of its own.

    Return what each example of each page printed. `pages` are lists of examples by name.
    """
    for place, examples in enumerate(pages.values()):
        (folder / str(place)).mkdir()
        (folder / str(place) / "page.py").write_text(one_after_the_other(examples), encoding="utf-8")
    code = f"""
import os, runpy
for place in range({len(pages)}):
    os.chdir(os.path.join({str(folder)!r}, str(place)))
    runpy.run_path("page.py", run_name="__main__")
    print({NEXT_PAGE!r})
"""
    outputs = run(code, folder).split(f"{NEXT_PAGE}\n")
    return {name: output.split(f"{NEXT}\n") for name, output in zip(pages, outputs, strict=False)}


def one_after_the_other(examples):
    """Return the code of examples as one file."""
    return f"print({NEXT!r})\n".join(f"{example.code}\n" for example in examples)


def lines(text):
    """Return the lines without trailing blanks, and without empty lines at the end."""
    return [line.rstrip() for line in text.rstrip().splitlines()]
