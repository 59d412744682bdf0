"""The bill of materials of a wheel: every package that it brings with all of its extras, at the locked versions.

The wheel is installed with its extra `all` into an empty environment, and that environment is listed in CycloneDX's
JSON. What the core needs has the scope `required`, what an extra brings `optional`, with the names of the extras.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.archives import NAME, ReleaseError, digest
from scripts.install import UV, environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

FORMAT = SchemaVersion.V1_6
REQUIREMENTS = """\
import json
from importlib.metadata import distributions
print(json.dumps({one.metadata["Name"]: one.requires or [] for one in distributions()}))
"""
"""Prints what each package of an environment needs, as its metadata says it."""


def listed(wheel: Path, pyproject: Path, versions: Path, epoch: int, folder: Path) -> dict[str, Any]:
    """Install a wheel with all extras into an environment in `folder`, and return its bill of materials.

    Parameters
    ----------
    wheel : Path
        What is described.
    pyproject : Path
        What the package needs, and which extras it has.
    versions : Path
        Locked versions, as constraints.
    epoch : int
        The bill's time, in Unix seconds.
    folder : Path
        Where the environment goes; it is made.
    """
    folder.mkdir(parents=True)
    python = folder / "venv" / "bin" / "python"
    uv = ["--quiet", "--no-config"]
    _run([sys.executable, "-m", "uv", "venv", *uv, "--python", sys.executable, str(folder / "venv")])
    install = [str(python) if part == sys.executable and place else part for place, part in enumerate(UV)]
    _run([*install, "--quiet", "--constraint", str(versions), f"{NAME}[all] @ {wheel.as_uri()}"], environment())
    file = folder / "bill.json"
    _run(
        [
            *(
                sys.executable,
                "-m",
                "cyclonedx_py",
                "environment",
                "--pyproject",
                str(pyproject),
                "--mc-type",
                "library",
            ),
            *("--output-reproducible", "--spec-version", FORMAT.to_version(), "--output-file", str(file), str(python)),
        ],
        os.environ | {"SOURCE_DATE_EPOCH": str(epoch)},
    )
    bill: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    needs = json.loads(_run([str(python), "-I", "-c", REQUIREMENTS]))
    return described(bill, wheel, tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"], needs)


def described(
    bill: dict[str, Any], wheel: Path, project: Mapping[str, Any], needs: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Return a bill that says which wheel it describes, and what each package is needed for.

    Parameters
    ----------
    bill : dict
        The packages of an environment. Its own graph of them has what every extra of a package would need, whether
        anybody wants that extra or not; it is replaced.
    wheel : Path
        What is described.
    project : mapping
        The table `project` of pyproject.toml.
    needs : mapping
        What each package of the environment needs, as its metadata says it.

    Raises
    ------
    ReleaseError
        If a package that the wheel needs is not in the bill, or if the result is no valid CycloneDX.
    """
    version = wheel.name.split("-")[1]
    root = bill["metadata"]["component"]
    root |= {
        "version": version,
        "purl": f"pkg:pypi/{NAME}@{version}",
        "hashes": [{"alg": "SHA-256", "content": digest(wheel)}],
    }
    components = {canonicalize_name(one["name"]): one for one in bill["components"]}
    graph: dict[str, list[Requirement]] = {
        canonicalize_name(name): [Requirement(text) for text in texts] for name, texts in needs.items()
    }
    graph |= {NAME: [Requirement(text) for text in project["dependencies"]]}
    extras = {name: [Requirement(text) for text in texts] for name, texts in project["optional-dependencies"].items()}
    of_core = closure(graph[NAME], graph, extras)
    of_extras = {name: closure(first, graph, extras) for name, first in extras.items() if name != "all"}
    everything = Edges.union(of_core, *of_extras.values())
    missing = sorted(everything.names - components.keys())
    if missing:
        raise ReleaseError(f"the bill of materials lacks {missing}, which the wheel needs; see scripts/sbom.py")
    for name, one in components.items():
        one["scope"] = "required" if name in of_core.names else "optional"
        brought = sorted(extra for extra, those in of_extras.items() if name in those.names)
        if brought:
            one["properties"] = [*one.get("properties", []), {"name": f"{NAME}:extras", "value": ",".join(brought)}]
    refs = {name: one["bom-ref"] for name, one in components.items()} | {NAME: root["bom-ref"]}
    direct = {
        canonicalize_name(one.name) for one in (*graph[NAME], *(one for first in extras.values() for one in first))
    }
    pairs = everything.pairs | {(NAME, name) for name in direct - {NAME}}
    bill["dependencies"] = [
        {"ref": ref, "dependsOn": sorted(refs[other] for one, other in pairs if one == name)}
        for name, ref in sorted(refs.items())
    ]
    problem = JsonStrictValidator(FORMAT).validate_str(json.dumps(bill))
    if problem is not None:
        raise ReleaseError(f"the bill of materials is no valid CycloneDX {FORMAT.to_version()}: {problem}")
    return bill


@dataclass(frozen=True)
class Edges:
    """Packages, and which of them needs which."""

    names: frozenset[str]
    pairs: frozenset[tuple[str, str]]

    def union(self, *others: Edges) -> Edges:
        """Return these and those of others."""
        every = (self, *others)
        return Edges(frozenset().union(*(one.names for one in every)), frozenset().union(*(one.pairs for one in every)))


def closure(
    first: Iterable[Requirement],
    graph: Mapping[str, Iterable[Requirement]],
    extras: Mapping[str, Iterable[Requirement]],
) -> Edges:
    """Return some packages and all that they need on this Python.

    Parameters
    ----------
    first : iterable of Requirement
        What is needed at first; an extra of slidejoin stands for what it names.
    graph : mapping
        What each package needs.
    extras : mapping
        What each extra of slidejoin names.

    Examples
    --------
    >>> graph = {"a": [Requirement("b"), Requirement("c; extra == 'x'")], "b": [Requirement("a")], "c": []}
    >>> sorted(closure([Requirement("a")], graph, {}).names)
    ['a', 'b']
    >>> sorted(closure([Requirement("a[x]")], graph, {}).pairs)
    [('a', 'b'), ('a', 'c'), ('b', 'a')]
    """
    names: set[str] = set()
    pairs: set[tuple[str, str]] = set()
    done: set[tuple[str, str]] = set()
    more = list(first)
    while more:
        one = more.pop()
        name = canonicalize_name(one.name)
        if name == NAME:
            more += [other for extra in one.extras for other in extras[extra]]
            continue
        names.add(name)
        for extra in ("", *sorted(one.extras)):
            if (name, extra) in done:
                continue
            done.add((name, extra))
            wanted = [other for other in graph.get(name, ()) if _applies(other, extra)]
            pairs |= {(name, canonicalize_name(other.name)) for other in wanted}
            more += wanted
    return Edges(frozenset(names), frozenset(pairs))


def _applies(one: Requirement, extra: str) -> bool:
    """Tell whether a package needs something on this Python, with one of its extras or with none (``""``)."""
    return one.marker is None or one.marker.evaluate({"extra": extra})


def _run(command: list[str], settings: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    if done.returncode:
        raise ReleaseError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout
