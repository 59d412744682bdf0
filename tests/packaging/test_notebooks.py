"""The notebooks of the docs are sources without outputs, and run to their end as they are."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import nbformat
import pandas as pd
import pytest

from scripts import notebooks

if TYPE_CHECKING:
    from pathlib import Path

ROOT = notebooks.ROOT
NAMES = notebooks.names()
EXECUTE = """
import sys, nbformat
from scripts.notebooks import execute
nbformat.write(execute(nbformat.read(sys.argv[1], as_version=4)), sys.argv[2])
"""


def without_home(folder: Path) -> dict[str, str]:
    """Return the environment of somebody whose home folder is empty, and cannot be written to."""
    home = folder / "home"
    home.mkdir(mode=0o555)
    names = ("JUPYTER", "IPYTHON", "MPL", "XDG", "PYTHON")
    return {name: value for name, value in os.environ.items() if not name.startswith(names)} | {"HOME": str(home)}


def python(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT, env=without_home(folder), capture_output=True, text=True, check=False,
    )  # fmt: skip


def printed(cells: list[nbformat.NotebookNode]) -> str:
    return "".join(one.text for cell in cells for one in cell.get("outputs", []) if one.output_type == "stream")


@pytest.mark.parametrize("name", NAMES)
def test_sources_are_clean(name: str):
    text = (notebooks.FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    notebook = notebooks.read(name)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.source for cell in code if cell.outputs or cell.execution_count is not None] == []
    assert notebook.metadata.kernelspec.name == "python3"
    assert text == json.dumps(json.loads(text), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


@pytest.mark.parametrize(("name", "shown"), [
    ("trades-and-quotes", ("30,000 quotes, 71,732 pairs, 0 late rows", "6,000 rows, 0 trades without a quote")),
    ("taxi-trips", ("344,034 pairs of 40,000 trips", "1,580 pairs, up to", "39,729 drop-offs;")),
])  # fmt: skip
def test_it_runs_in_an_empty_home_and_becomes_a_page(name: str, shown: tuple[str, ...], tmp_path: Path):
    done = python(tmp_path, "-m", "scripts.notebooks", "--to", tmp_path / "pages", name)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "pages" / f"{name}.md").read_text(encoding="utf-8")
    assert [line for line in shown if line not in page] == []
    assert f'href="{name}.ipynb"' in page
    linked = re.findall(r"!\[png\]\(([^)]+)\)", page)
    assert len(linked) == 3
    assert all((tmp_path / "pages" / file).read_bytes().startswith(b"\x89PNG") for file in linked)


def test_the_taxi_notebook_takes_a_file_of_trip_records(tmp_path: Path):
    """Two trips that could share a cab, and a next ride; those of another day and without a distance do not count."""
    minutes = pd.to_timedelta([0, 2, 20, 60 * 24, 3], unit="min")
    started = pd.Timestamp("2024-01-17 08:00:00") + minutes
    trips = pd.DataFrame({
        "VendorID": [1, 2, 1, 2, 1],
        "tpep_pickup_datetime": started,
        "tpep_dropoff_datetime": started + pd.Timedelta("10min"),
        "passenger_count": [1.0, 2.0, 1.0, 1.0, 1.0],
        "trip_distance": [2.0, 2.5, 3.0, 9.0, 0.0],
        "PULocationID": [161, 161, 236, 161, 161],
        "DOLocationID": [236, 236, 161, 236, 236],
        "fare_amount": [12.0, 11.0, 13.0, 1.0, 5.0],
    })  # fmt: skip
    trips.to_parquet(tmp_path / "trips.parquet")
    notebook = notebooks.read("taxi-trips")
    (cell,) = (cell for cell in notebook.cells if "TRIPS: Path | None = None" in cell.source)
    cell.source = cell.source.replace("Path | None = None", f"Path | None = Path({str(tmp_path / 'trips.parquet')!r})")
    nbformat.write(notebook, tmp_path / "in.ipynb")
    done = python(tmp_path, "-c", EXECUTE, tmp_path / "in.ipynb", tmp_path / "out.ipynb")
    assert done.returncode == 0, done.stderr
    said = printed(nbformat.read(tmp_path / "out.ipynb", as_version=4).cells)
    assert "3 trips, 2.5 miles and 12.00 dollars on average" in said
    assert "1 pairs of 3 trips" in said
    assert "1 pairs, up to 2 miles less" in said
    assert "2 drop-offs; 0% without a ride within 30 minutes" in said


def test_a_cell_that_fails_ends_the_build_and_is_named(tmp_path: Path):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")])
    nbformat.write(notebook, tmp_path / "in.ipynb")
    done = python(tmp_path, "-c", EXECUTE, tmp_path / "in.ipynb", tmp_path / "out.ipynb")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert "1 / 0" in done.stderr


def test_a_cell_that_warns_ends_the_build_and_is_named(tmp_path: Path):
    cell = nbformat.v4.new_code_cell("import warnings\nwarnings.warn('beware')")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "in.ipynb")
    done = python(tmp_path, "-c", EXECUTE, tmp_path / "in.ipynb", tmp_path / "out.ipynb")
    assert done.returncode == 1
    assert "a cell writes to standard error" in done.stderr
    assert "beware" in done.stderr


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    with pytest.raises(SystemExit):
        notebooks.main(["--to", str(tmp_path), "taxi-trip"])
    assert "no notebook taxi-trip in" in capsys.readouterr().err
