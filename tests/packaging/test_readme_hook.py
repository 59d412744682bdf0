"""The README that an index shows has no link that leads nowhere there."""

from __future__ import annotations

import re
import tomllib

import slidejoin
from scripts.readme_hook import ReadmeHook, absolute
from tests.packaging.examples import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REPOSITORY = PROJECT["urls"]["Repository"]


def hook():
    metadata = {"urls": PROJECT["urls"], "version": slidejoin.__version__}
    ReadmeHook(str(ROOT), {}).update(metadata)
    return metadata["readme"]


def test_every_link_and_picture_is_whole():
    readme = hook()
    assert readme["content-type"] == "text/markdown"
    targets = re.findall(r"\]\(([^)]+)\)", readme["text"]) + re.findall(r'(?:src|srcset)="([^"]+)"', readme["text"])
    assert len(targets) > 30
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []


def test_files_that_it_links_to_exist():
    pattern = re.compile(rf"{re.escape(REPOSITORY)}/(?:blob|raw)/v{re.escape(slidejoin.__version__)}/([^)#\"]+)")
    files = set(pattern.findall(hook()["text"]))
    assert "docs/spark.md" in files
    assert [file for file in sorted(files) if not (ROOT / file).exists()] == []


def test_the_text_is_that_of_the_readme_otherwise():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    prefix = re.compile(rf"{re.escape(REPOSITORY)}/(?:blob|raw)/v{re.escape(slidejoin.__version__)}/")
    assert prefix.sub("", hook()["text"]) == re.sub(r"^ *<source [^>]*>\n", "", text, flags=re.MULTILINE)


def test_links_with_a_scheme_and_places_on_the_page_stay():
    text = "[a](https://x/y.md) [b](#b) [c](mailto:a@b)\n[d]: https://x\n"
    assert absolute(text, "https://host/a", "1.0") == text


def test_images_that_build_the_package_have_the_hook():
    """A build without it ends with an error, and images are seldom built."""
    files = [
        path for path in sorted((ROOT / "deploy").rglob("Dockerfile*")) if "pyproject.toml" in path.read_text("utf-8")
    ]
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert files
    assert [path for path in files if "COPY scripts/readme_hook.py scripts/" not in path.read_text("utf-8")] == []
    assert "!scripts/readme_hook.py" in lines
