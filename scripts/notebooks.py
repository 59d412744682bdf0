"""Run the notebooks of docs/notebooks and write them as pages: `python -m scripts.notebooks --to FOLDER [NAME …]`.

The sources have no outputs. Each is run from top to bottom by a kernel of this environment, in an empty folder; what it
prints and draws goes into a page in Markdown, with pictures next to it. Nothing of the user's own Jupyter is read: no
settings, no kernels, and a home folder is not needed. `make docs` does this through scripts/site_pages.py.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat

if TYPE_CHECKING:
    from nbformat import NotebookNode

__all__ = ["FOLDER", "execute", "main", "names", "page_of", "pages", "read", "settings", "sources"]

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "notebooks"

KERNEL = "python3"
PATIENCE = 300
"""Seconds for a cell: a machine without compiled kernels compiles them first."""

SHOWN = ["image/svg+xml", "image/png", "text/plain"]
"""What of an output a page has: the first of these that there is."""


def names() -> list[str]:
    """Return the names of all notebooks.

    Examples
    --------
    >>> names()
    ['taxi-trips', 'trades-and-quotes']
    """
    return sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def sources() -> tuple[str, ...]:
    """Return the text of all notebooks, in the order of their names."""
    return tuple((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8") for name in names())


def read(name: str) -> NotebookNode:
    """Return a notebook as it is in the checkout."""
    notebook: NotebookNode = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    return notebook


@cache
def pages(texts: tuple[str, ...]) -> dict[str, bytes]:  # noqa: ARG001 - run again only after a change of one of these
    """Run all notebooks in a process of their own, and return their pages and pictures by the names of the files.

    Raises
    ------
    RuntimeError
        If one of them fails.
    """
    with tempfile.TemporaryDirectory(prefix="slidejoin-pages-") as folder:
        command = [sys.executable, "-m", "scripts.notebooks", "--to", folder]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - this file
        if done.returncode:
            message = f"a notebook of {FOLDER} cannot be run:\n{done.stderr}"
            raise RuntimeError(message)
        made = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in made}


def settings(folder: Path) -> dict[str, str]:
    """Return variables for Jupyter, IPython, matplotlib and slidejoin that let them do without the home folder.

    Parameters
    ----------
    folder : Path
        Where they may write what nobody needs afterwards.
    """
    stored = ROOT / ".cache"
    own = {f"JUPYTER_{kind}_DIR": str(folder / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")}
    return own | {
        "IPYTHONDIR": str(folder / "ipython"),
        "JUPYTER_NO_CONFIG": "1",
        "MPLCONFIGDIR": str(stored / "matplotlib"),
        "NUMBA_CACHE_DIR": os.environ.get("NUMBA_CACHE_DIR", str(stored / "numba")),
        "SLIDEJOIN_QUIET": "1",
    }


def execute(notebook: NotebookNode) -> NotebookNode:
    """Run a notebook, and return it with its outputs.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        If a cell fails; it says which one, and why.
    RuntimeError
        If a cell writes to standard error: readers of a page shall not see warnings.
    """
    from nbclient import NotebookClient  # noqa: PLC0415 - only with its settings in the environment

    with tempfile.TemporaryDirectory(prefix="slidejoin-notebook-") as folder:
        os.environ.update(settings(Path(folder)))
        work = Path(folder, "work")
        work.mkdir()
        Path(os.environ["MPLCONFIGDIR"]).mkdir(parents=True, exist_ok=True)
        client = NotebookClient(
            notebook,
            timeout=PATIENCE,
            kernel_name=KERNEL,
            resources={"metadata": {"path": str(work)}},
            # No warning that a kernel on loopback, whose messages are signed, does not encrypt them.
            extra_arguments=["--IPKernelApp.log_level=ERROR"],
        )
        done: NotebookNode = client.execute()
    for cell in done.cells:
        said = "".join(one.text for one in cell.get("outputs", []) if one.get("name") == "stderr")
        if said:
            message = f"a cell writes to standard error:\n{cell.source}\n{said}"
            raise RuntimeError(message)
    return done


def page_of(notebook: NotebookNode, name: str) -> tuple[str, dict[str, bytes]]:
    """Return a notebook that was run as a page in Markdown, and its pictures by the names of their files."""
    from nbconvert import MarkdownExporter  # noqa: PLC0415 - see `execute`
    from traitlets.config import Config  # noqa: PLC0415 - the same

    config = Config(NbConvertBase={"display_data_priority": SHOWN})
    exporter = MarkdownExporter(config=config)  # type: ignore[no-untyped-call]
    text, resources = exporter.from_notebook_node(notebook, {"unique_key": name, "output_files_dir": f"{name}-files"})
    title, _, rest = text.lstrip().partition("\n")
    note = f'<a href="{name}.ipynb" download>This notebook</a> was run as this page was made.'
    pictures: dict[str, bytes] = resources["outputs"]
    return f"{title}\n\n{note}\n{rest}", pictures


def main(arguments: list[str] | None = None) -> None:
    """Run notebooks, and write their pages and pictures to a folder."""
    parser = argparse.ArgumentParser(description="Run the notebooks of docs/notebooks and write them as pages.")
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="where the pages are written")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones; all by default: {', '.join(names())}")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(names()))
    if unknown:
        parser.error(f"no notebook {', '.join(unknown)} in {FOLDER}; there are {', '.join(names())}")
    for name in options.names or names():
        text, pictures = page_of(execute(read(name)), name)
        for file, content in {f"{name}.md": text.encode(), **pictures}.items():
            place: Path = options.to / file
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            sys.stdout.write(f"{place}\n")


if __name__ == "__main__":
    main()
