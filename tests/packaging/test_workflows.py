"""The workflows on GitHub: what they run exists, actions are pinned, and no job may do more than it needs."""

from __future__ import annotations

import re

import pytest
import yaml

from scripts.pythons import supported
from tests.packaging.examples import ROOT

FOLDER = ROOT / ".github" / "workflows"
NAMES = sorted(path.name for path in FOLDER.glob("*.yml"))
PINNED = re.compile(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
TARGET = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)
WRITES = {
    ("docs.yml", "deploy"): {"pages", "id-token"},
    ("release.yml", "attest"): {"id-token", "attestations"},
    ("release.yml", "publish"): {"id-token"},
    ("release.yml", "github"): {"contents"},
}
"""What a job may write; every other job reads alone."""


def text_of(name):
    return (FOLDER / name).read_text(encoding="utf-8")


def workflow(name):
    return yaml.safe_load(text_of(name))


def events(name):
    """YAML 1.1 reads the word `on` as true."""
    return workflow(name)[True]


def jobs():
    return [(name, job, what) for name in NAMES for job, what in workflow(name)["jobs"].items()]


def commands():
    return [step["run"] for _, _, job in jobs() for step in job["steps"] if "run" in step]


def test_there_are_four():
    assert NAMES == ["docs.yml", "matrix.yml", "release.yml", "tests.yml"]
    assert [workflow(name)["name"] for name in NAMES] == [name.removesuffix(".yml") for name in NAMES]


def test_every_target_of_make_that_is_named_exists():
    targets = set(TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    named = {target for command in commands() for target in re.findall(r"\bmake ([a-z-]+)", command)}
    assert named == {"check", "test", "wheel-test", "nightly", "matrix", "docs", "release"}
    assert named <= targets


def test_every_module_that_is_run_exists():
    named = {module for command in commands() for module in re.findall(r"-m ([\w.]+)", command)}
    assert named == {"scripts.release"}
    assert all((ROOT / f"{module.replace('.', '/')}.py").is_file() for module in named)


@pytest.mark.parametrize("name", NAMES)
def test_actions_are_pinned_by_commit_and_name_their_version(name):
    used = [line.strip().removeprefix("- ") for line in text_of(name).splitlines() if "uses:" in line]
    assert used
    assert [line for line in used if not PINNED.fullmatch(line)] == []


def test_an_action_has_one_version_everywhere():
    used = {line for name in NAMES for line in re.findall(r"uses: (\S+@\S+ # \S+)", text_of(name))}
    actions = [line.split("@")[0] for line in used]
    assert sorted(actions) == sorted(set(actions))


@pytest.mark.parametrize(("name", "job", "what"), jobs())
def test_a_job_ends_and_writes_only_where_it_has_to(name, job, what):
    assert 0 < what["timeout-minutes"] <= 360
    assert workflow(name)["permissions"] == {"contents": "read"}
    written = {scope for scope, right in what.get("permissions", {}).items() if right == "write"}
    assert written == WRITES.get((name, job), set())
    checkouts = [step for step in what["steps"] if "actions/checkout" in step.get("uses", "")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_no_command_has_text_of_an_event_in_it():
    """Such text may come from anybody; it goes through the environment."""
    assert [command for command in commands() if "${{" in command] == []


def test_changes_are_tested_on_all_pythons_on_linux_and_macos():
    for job in ("check", "test"):
        matrix = workflow("tests.yml")["jobs"][job]["strategy"]["matrix"]
        assert matrix["python"] == supported()
        assert [system.split("-")[0] for system in matrix["system"]] == ["ubuntu", "macos"]
    assert {"push", "pull_request"} <= events("tests.yml").keys()


def test_the_long_tests_run_every_night_and_older_sparks_every_week():
    crons = [one["cron"] for one in events("matrix.yml")["schedule"]]
    night, week = workflow("matrix.yml")["jobs"]["nightly"], workflow("matrix.yml")["jobs"]["sparks"]
    assert [len(cron.split()) for cron in crons] == [5, 5]
    assert [cron.split()[4] for cron in crons] == ["*", "6"]
    # A cron that no job names would run nothing.
    assert f"'{crons[0]}'" in night["if"]
    assert f"'{crons[1]}'" in week["if"]
    assert (
        week["strategy"]["matrix"]["spark"]
        == re.findall(r"or \$\(SPARKS\),([\d. ]+)\)", (ROOT / "Makefile").read_text(encoding="utf-8"))[0].split()
    )


def test_a_tag_is_proved_attested_and_published_in_this_order():
    release = workflow("release.yml")["jobs"]
    assert events("release.yml") == {"push": {"tags": ["v*"]}}
    assert [job.get("needs") for job in release.values()] == [None, "build", "attest", "publish"]
    (setup,) = [step["with"] for step in release["build"]["steps"] if "setup-python" in step.get("uses", "")]
    pythons = setup["python-version"]
    assert pythons.split() == supported()
    assert release["build"]["env"]["TAG"] == "${{ github.ref_name }}"
    assert release["publish"]["environment"]["name"] == "pypi"
    (publish,) = [step for step in release["publish"]["steps"] if "pypi-publish" in step.get("uses", "")]
    assert publish["with"] == {"packages-dir": "packages/", "attestations": True}
    assert "secrets." not in text_of("release.yml")


def test_badges_of_the_readme_are_of_workflows_that_there_are():
    named = re.findall(r"actions/workflows/([\w.]+)/badge\.svg", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert named
    assert set(named) <= set(NAMES)


def test_newer_actions_are_proposed_with_a_subject_that_the_hook_takes():
    (update,) = yaml.safe_load((FOLDER.parent / "dependabot.yml").read_text(encoding="utf-8"))["updates"]
    assert update["package-ecosystem"] == "github-actions"
    assert update["cooldown"]["default-days"] >= 7
    assert re.fullmatch(r"[a-z][a-z0-9_./-]*:", update["commit-message"]["prefix"])
