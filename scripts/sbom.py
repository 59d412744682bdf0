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
from typing import TYPE_CHECKING, Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.archives import NAME, ReleaseError, digest
from scripts.install import UV, environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

FORMAT = SchemaVersion.V1_6


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
    return described(bill, wheel, tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"])


def described(bill: dict[str, Any], wheel: Path, project: Mapping[str, Any]) -> dict[str, Any]:
    """Return a bill that says which wheel it describes, and what each package is needed for.

    Raises
    ------
    ReleaseError
        If a package that the project needs is not in the bill, or if the result is no valid CycloneDX.
    """
    version = wheel.name.split("-")[1]
    root = bill["metadata"]["component"]
    root |= {
        "version": version,
        "purl": f"pkg:pypi/{NAME}@{version}",
        "hashes": [{"alg": "SHA-256", "content": digest(wheel)}],
    }
    extras = {name: _names(project, name) for name in project["optional-dependencies"]}
    core = {canonicalize_name(Requirement(text).name) for text in project["dependencies"]}
    components: dict[str, Any] = {canonicalize_name(one["name"]): one for one in bill["components"]}
    missing = sorted(set.union(core, *extras.values()) - components.keys())
    if missing:
        raise ReleaseError(f"the bill of materials lacks {missing}, which pyproject.toml names; see scripts/sbom.py")
    needs = {one["ref"]: one.get("dependsOn", []) for one in bill["dependencies"]}
    names = {one["bom-ref"]: name for name, one in components.items()}
    edges = {
        names[ref]: [names[other] for other in others if other in names]
        for ref, others in needs.items()
        if ref in names
    }
    reached = {extra: closure(first, edges) for extra, first in extras.items() if extra != "all"}
    required = closure(core, edges)
    for name, one in components.items():
        one["scope"] = "required" if name in required else "optional"
        brought = sorted(extra for extra, those in reached.items() if name in those)
        if brought:
            one["properties"] = [*one.get("properties", []), {"name": f"{NAME}:extras", "value": ",".join(brought)}]
    problem = JsonStrictValidator(FORMAT).validate_str(json.dumps(bill))
    if problem is not None:
        raise ReleaseError(f"the bill of materials is no valid CycloneDX {FORMAT.to_version()}: {problem}")
    return bill


def _names(project: Mapping[str, Any], extra: str) -> set[str]:
    """Return the packages that an extra names, those of the extras that it includes among them."""
    found: set[str] = set()
    for text in project["optional-dependencies"][extra]:
        one = Requirement(text)
        if canonicalize_name(one.name) == NAME:
            found |= set().union(*(_names(project, other) for other in one.extras))
        else:
            found.add(canonicalize_name(one.name))
    return found


def closure(first: Iterable[str], edges: Mapping[str, Iterable[str]]) -> set[str]:
    """Return some packages and all that they need.

    Examples
    --------
    >>> sorted(closure(["a"], {"a": ["b"], "b": ["c", "a"], "d": ["a"]}))
    ['a', 'b', 'c']
    """
    found: set[str] = set()
    more = list(first)
    while more:
        name = more.pop()
        if name not in found:
            found.add(name)
            more += edges.get(name, ())
    return found


def _run(command: list[str], settings: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    if done.returncode:
        raise ReleaseError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
