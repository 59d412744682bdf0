"""Make a release of the last commit in dist/, and prove it: built twice, looked through, installed and run.

``python -m scripts.release`` writes the wheel, the source archive, a bill of materials, the recipe for conda-forge and
their checksums. It publishes nothing. With ``--tag v1.2.3`` everything that a release of that version needs has to be
there; without, what is missing is said. ``--notes`` prints what the changelog says about the version, and does no more.
See docs/engineering/releasing.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from scripts import sbom
from scripts.archives import (
    NAME,
    Archives,
    ReleaseError,
    build,
    copy_of,
    differences,
    digest,
    git,
    members,
    wrong_contents,
)
from scripts.pythons import Interpreter, Trial, interpreter, supported, try_wheel, versions_file
from scripts.release_state import Source, not_ready, notes, released_recipe, version_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ROOT = Path(__file__).resolve().parent.parent
STEPS = ("install", "join", "command")
Tried: TypeAlias = "dict[str, tuple[Interpreter, Trial] | None]"
"""The trial on each version of Python; None for one that is not on this machine."""


def say(text: str = "") -> None:
    """Write a line to standard output at once: the steps take minutes."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def source_of(root: Path, folder: Path) -> Source:
    """Copy the files of the last commit into a folder, and return what is said about them."""
    commit = git(root, "rev-parse", "HEAD")
    epoch = int(git(root, "log", "-1", "--format=%ct", commit))
    tree = copy_of(root, commit, folder)
    version = version_of((tree / "src" / NAME / "__init__.py").read_text(encoding="utf-8"))
    return Source(tree, commit, version, epoch, git(root, "ls-tree", "-r", "--name-only", commit).splitlines())


def built(root: Path, source: Source, work: Path) -> Archives:
    """Build the archives twice, and the wheel once more from the source archive; return the first ones.

    Raises
    ------
    ReleaseError
        If two builds differ, if a file is in an archive that should not be, or if one lacks.
    """
    first = build(source.tree, work / "one" / "out", source.epoch)
    # Another path of another length, another umask, another time zone.
    other = copy_of(root, source.commit, work / "another-folder" / "deeper" / "tree", umask=0o077)
    second = build(other, work / "two" / "out", source.epoch, first=False)
    unpacked = work / "three"
    shutil.unpack_archive(first.sdist, unpacked, filter="data")
    third = build(unpacked / f"{NAME}-{source.version}", work / "three" / "out", source.epoch)
    pairs = ((first.wheel, second.wheel), (first.sdist, second.sdist))
    wrong = [f"two builds: {one}" for pair in pairs for one in differences(*pair)]
    wrong += [f"the wheel made of the source archive: {one}" for one in differences(first.wheel, third.wheel)]
    wrong += wrong_contents(first, source.tree / "packaging", source.tracked, source.version, source.epoch)
    if wrong:
        raise ReleaseError("\n".join(wrong))
    return first


def twine(files: Sequence[Path]) -> None:
    """Check what an index would show of the archives; warnings are errors."""
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - twine
    if done.returncode:
        raise ReleaseError(f"twine check --strict:\n{done.stdout}{done.stderr}")


def trials(wheel: Path, pythons: Sequence[str], versions: Path, work: Path) -> Tried:
    """Try a wheel on each version of Python; None for one that is not on this machine."""
    done: Tried = {}
    for version in pythons:
        python = interpreter(version)
        if python is None:
            done[version] = None
            continue
        say(f"trying the wheel on Python {python.version}, {python.path}")
        done[version] = (python, try_wheel(wheel, python, versions, work / version))
    return done


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows as text; the first column is words, the others are numbers.

    Examples
    --------
    >>> print(table(["file", "bytes"], [["a", "1,000"], ["longer", "7"]]))
    file    bytes
    a       1,000
    longer      7
    """
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    said = []
    for line in lines:
        cells = [cell.rjust(widths[at]) if at else cell.ljust(widths[at]) for at, cell in enumerate(line)]
        said.append("  ".join(cells).rstrip())
    return "\n".join(said)


def of_trials(done: Tried) -> str:
    """Return the trials as a table: seconds of each step."""
    rows = []
    for version, tried in done.items():
        if tried is None:
            rows.append([version, *("-" for _ in STEPS), "not on this machine"])
            continue
        python, trial = tried
        cells = [f"{trial.seconds[step]:.0f} s" if step in trial.seconds else "-" for step in STEPS]
        rows.append([python.version, *cells, "failed" if trial.problem else "passed"])
    return table(["Python", *STEPS, "the wheel alone"], rows)


def of_files(files: Iterable[Path]) -> str:
    """Return the files as a table: bytes, how many files are in them, and the checksum's beginning."""
    rows = []
    for file in files:
        inside = f"{len(members(file)):,}" if file.suffix in {".whl", ".gz"} else "-"
        rows.append([file.name, f"{file.stat().st_size:,}", inside, digest(file)[:16]])
    return table(["file", "bytes", "files", "SHA-256"], rows)


def of_bill(bill: dict[str, Any]) -> str:
    """Return in a line how many packages a bill of materials has."""
    scopes = [one["scope"] for one in bill["components"]]
    return (
        f"bill of materials: {scopes.count('required')} packages of the core, {scopes.count('optional')} of the extras"
    )


def release(root: Path, out: Path, pythons: Sequence[str], tag: str | None) -> int:
    """Make a release of the last commit of the repository at `root`; return 0, or 1 if it is not one."""
    uncommitted = git(root, "diff", "--name-only", "HEAD").splitlines()
    with tempfile.TemporaryDirectory(prefix="slidejoin-release-") as made:
        work = Path(made).resolve()
        source = source_of(root, work / "tree")
        when = datetime.fromtimestamp(source.epoch, UTC)
        say(f"{NAME} {source.version} from commit {source.commit[:12]} of {when:%Y-%m-%d %H:%M:%S} UTC")
        missing = not_ready(source, tag, uncommitted)
        if tag is not None and missing:
            raise ReleaseError("\n".join(missing))
        say("building twice, and once more from the source archive")
        archives = built(root, source, work)
        twine([archives.wheel, archives.sdist])
        versions = versions_file(source.tree / "requirements" / "dev.lock", work / "versions.txt")
        done = trials(archives.wheel, pythons, versions, work / "trials")
        say("installing all extras, for the bill of materials")
        bill = sbom.listed(archives.wheel, source.tree / "pyproject.toml", versions, source.epoch, work / "bill")
        files = written(source, archives, bill, out)
    say(f"\n{of_files(files)}\n\n{of_trials(done)}\n")
    say("archives: two builds are the same to the byte, the wheel of the source archive too; contents as listed")
    say(f"twine check --strict: passed\n{of_bill(bill)}")
    problems = [tried[1].problem for tried in done.values() if tried and tried[1].problem]
    absent = [version for version, tried in done.items() if tried is None]
    if tag is not None and absent:
        problems.append(f"a release is tried on every Python, and these are not on this machine: {', '.join(absent)}")
    if problems:
        raise ReleaseError("\n".join(problems))
    for one in missing:
        say(f"to do before a tag: {one}")
    say(f"{out} has the release; nothing was published")
    return 0


def written(source: Source, archives: Archives, bill: dict[str, Any], out: Path) -> list[Path]:
    """Write everything into the folder `out`, with checksums, and return the files without that of the checksums."""
    out.mkdir(parents=True, exist_ok=True)
    for old in (*out.glob(f"{NAME}-*"), out / "recipe.yaml", out / "SHA256SUMS"):
        old.unlink(missing_ok=True)
    files = [Path(shutil.copy(file, out)) for file in (archives.wheel, archives.sdist)]
    listed = out / f"{NAME}-{source.version}.cdx.json"
    listed.write_text(json.dumps(bill, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    project = tomllib.loads(source.text("pyproject.toml"))["project"]
    url = f"{project['urls']['Repository']}/releases/download/v${{{{ version }}}}/{NAME}-${{{{ version }}}}.tar.gz"
    recipe = out / "recipe.yaml"
    text = released_recipe(source.text("packaging/conda/recipe.yaml"), url, digest(archives.sdist))
    recipe.write_text(text, encoding="utf-8")
    files += [listed, recipe]
    sums = "".join(f"{digest(file)}  {file.name}\n" for file in files)
    (out / "SHA256SUMS").write_text(sums, encoding="utf-8")
    return files


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 if all is well."""
    parser = argparse.ArgumentParser(prog="python -m scripts.release", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--tag", help="the tag of this release, such as v0.2.0: nothing may be missing")
    parser.add_argument("--pythons", help="versions of Python, such as '3.11 3.12'; all that are supported if left out")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where the files go")
    parser.add_argument("--notes", action="store_true", help="print what the changelog says, and do no more")
    given = parser.parse_args(arguments)
    known = supported()
    pythons = (given.pythons or "").split() or known
    if strange := [one for one in pythons if one not in known]:
        parser.error(f"got --pythons {' '.join(strange)}; pyproject.toml has {', '.join(known)}")
    try:
        if given.notes:
            version = version_of((ROOT / "src" / NAME / "__init__.py").read_text(encoding="utf-8"))
            say(notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version)[1])
            return 0
        return release(ROOT, given.out, pythons, given.tag or None)
    except ReleaseError as error:
        sys.stderr.write(f"{error}\nThis is no release.\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
