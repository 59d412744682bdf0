"""The hook that `make env` installs, run by git itself in repositories of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MADE = (
    "requirements/bootstrap.lock", "requirements/dev.lock", "pyproject.toml", "scripts/install.py",
    "src/slidejoin/__init__.py", "scripts/readme_hook.py",
)  # fmt: skip
"""What the environment is made from, beside scripts."""

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def run(folder, *command, **settings):
    """Run a command as on a machine without settings of git; return its status, and all that it printed."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "MAKE"))}
    clean |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder)}
    for role in ("AUTHOR", "COMMITTER"):
        clean |= {f"GIT_{role}_NAME": "A", f"GIT_{role}_EMAIL": "a@example.com"}
    done = subprocess.run(command, cwd=folder, env=clean | settings, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def sources(folder):
    """Make a folder in which the environment is there already, so that `make env` only installs the hook."""
    (folder / ".venv").mkdir(parents=True)
    for name in MADE:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    for script in ("commit_msg.sh", "env.sh", "python.sh"):
        shutil.copy(ROOT / "scripts" / script, folder / "scripts")
    shutil.copy(ROOT / "Makefile", folder)
    (folder / ".venv" / ".slidejoin-ready").touch()
    return folder


def make_env(folder):
    status, said = run(folder, "make", "--no-print-directory", "env")
    assert status == 0, said
    return said


def commit(folder, message, **settings):
    status, said = run(folder, "git", "commit", "-q", "--allow-empty", "-m", message, **settings)
    return "" if status == 0 else said


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = sources(tmp_path_factory.mktemp("repository"))
    run(folder, "git", "init", "-q")
    assert make_env(folder) == ".git/hooks/commit-msg checks the subjects of commits\n"
    assert make_env(folder) == ""
    return folder


@pytest.mark.parametrize(
    "message",
    [
        "index: buckets of one line",
        "index, operator: one protocol",
        "spark/state: files have a digest\n\nA file of another process\nis not read.",
        "docs: " + "é" * 66,
        "Merge branch 'one' into main",
        "Merge pull request #1 from one/two",
        'Revert "index: buckets of one line"',
        "fixup! index: buckets of one line",
        "squash! " + "index: " + "x" * 65,
    ],
)
def test_a_subject_with_an_area_is_taken(repository, message):
    assert commit(repository, message) == ""


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("Buckets of one line", "it has no area in front, as in 'index: buckets of one line'"),
        ("Index: buckets of one line", "it has no area in front"),
        ("index:buckets of one line", "it has no area in front"),
        ("Mergers pass on numbers", "it has no area in front"),
        ("docs: " + "é" * 67, "does not fit: it has 73 characters.\n"),
        ("x" * 80, "in front, as in 'index: buckets of one line', and it has 80 characters"),
        ("index: buckets\nof one line", "the line below it is not empty"),
    ],
)
def test_a_subject_of_another_form_is_refused_with_the_form(repository, message, reason):
    said = commit(repository, message)
    assert f"The subject of this commit: {message.splitlines()[0]}\n" in said
    assert reason in said
    assert "Write `area: what` in at most 72 characters, then an empty line, then why.\n" in said


def test_comments_of_the_editor_are_no_subject(repository):
    editor = "printf '%s\\n' '' '# a comment' 'docs: a word' '# another' >"
    template = run(repository, "git", "commit", "-q", "--allow-empty", GIT_EDITOR=editor)
    assert template == (0, "")
    assert run(repository, "git", "log", "-1", "--format=%s") == (0, "docs: a word\n")


def test_a_worktree_has_the_hook_of_its_repository(repository, tmp_path):
    assert commit(repository, "all: a beginning") == ""
    folder = tmp_path / "worktree"
    run(repository, "git", "worktree", "add", "-q", str(folder))
    assert commit(folder, "no area, and no script in this state") == ""
    shutil.copytree(repository, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".git"))
    assert make_env(folder) == ""
    assert "it has no area in front" in commit(folder, "no area")
    (repository / ".git" / "hooks" / "commit-msg").unlink()
    assert make_env(folder) == f"{repository}/.git/hooks/commit-msg checks the subjects of commits\n"


def test_without_a_checkout_there_is_no_hook(tmp_path):
    run(tmp_path, "git", "init", "-q")
    archive = sources(tmp_path / "vendor" / "slidejoin")
    assert make_env(archive) == ""
    assert not (tmp_path / ".git" / "hooks" / "commit-msg").exists()
    shutil.rmtree(tmp_path / ".git")
    assert make_env(archive) == ""


def test_a_hook_of_ones_own_stays_and_that_is_said(tmp_path):
    folder = sources(tmp_path / "repository")
    run(folder, "git", "init", "-q")
    hook = folder / ".git" / "hooks" / "commit-msg"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    said = make_env(folder)
    assert said.splitlines() == [
        "The subjects of commits are not checked: .git/hooks/commit-msg is your own, and stays as it is.",
        'To check them, let that hook call:  scripts/commit_msg.sh "$1"',
    ]
    assert hook.read_text(encoding="utf-8") == "#!/bin/sh\nexit 0\n"
    hook.write_text('#!/bin/sh\nscripts/commit_msg.sh "$1"\n', encoding="utf-8")
    hook.chmod(0o755)
    assert make_env(folder) == ""
    assert "it has no area in front" in commit(folder, "no area")


def test_a_folder_of_hooks_for_many_repositories_gets_none(tmp_path):
    folder = sources(tmp_path / "repository")
    run(folder, "git", "init", "-q")
    run(folder, "git", "config", "core.hooksPath", str(tmp_path / "hooks"))
    assert f"are not checked: core.hooksPath leads to {tmp_path}/hooks/commit-msg.\n" in make_env(folder)
    assert not (tmp_path / "hooks").exists()
