"""The scripts behind the Makefile, on machines made up of stub commands: what they choose, say and would install."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

JAVA = """\
echo '    java.home = {home}' >&2
echo '    java.specification.version = {version}' >&2
"""
NO_VECTOR_MODULE = """\
echo 'Error occurred during initialization of boot layer' >&2
exit 1
"""
PYTHON = """\
case "$*" in
    *version_info*ensurepip* | *ensurepip*) exit {without_venv} ;;
    *print*) echo python3.12 ;;
    *version_info*) exit {outdated} ;;
esac
"""
CANDIDATES = """\
[ "$2" = openjdk-21-jre-headless ] && echo '  Candidate: 21.0.5+11' || echo '  Candidate: (none)'
"""


class Machine:
    """A folder of commands that is the whole PATH of what runs on it."""

    def __init__(self, folder, *, user=1000):
        self.bin = folder / "bin"
        self.log = folder / "log"
        self.bin.mkdir(parents=True)
        for name in ("dirname", "env", "grep", "sed"):
            (self.bin / name).symlink_to(shutil.which(name))
        self.add("id", f"echo {user}")

    def add(self, name, body="", folder=None):
        """Put a command there that notes how it was called and then runs `body`."""
        path = (folder or self.bin) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # never write through a link to one of the machine's own commands
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>{self.log}\n{body}\n', encoding="utf-8")
        path.chmod(0o755)
        return path

    def add_java(self, home, version="17", folder=None):
        self.add("java", JAVA.format(home=home, version=version), folder=home / "bin")
        if folder is not None:
            (folder / "java").symlink_to(home / "bin" / "java")

    def run(self, script, **settings):
        environment = {"PATH": str(self.bin), "JAVA_PLACES": "", **settings}
        command = [str(ROOT / "scripts" / script)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.strip(), done.stderr.strip()

    def calls(self, name):
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        return [line for line in lines if line.startswith(f"{name} ")]


def test_java_home_is_taken_from_its_variable_first(tmp_path):
    machine = Machine(tmp_path)
    machine.add_java(tmp_path / "jdk21", "21")
    machine.add_java(tmp_path / "jdk17", "17", folder=machine.bin)
    assert machine.run("java_home.sh", JAVA_HOME=str(tmp_path / "jdk21")) == (0, str(tmp_path / "jdk21"), "")
    assert machine.run("java_home.sh") == (0, str(tmp_path / "jdk17"), "")


def test_java_that_is_too_old_or_lacks_the_module_is_passed_over(tmp_path):
    machine = Machine(tmp_path)
    machine.add_java(tmp_path / "jdk8", "1.8")
    machine.add_java(tmp_path / "jdk11", "11", folder=machine.bin)
    machine.add("java", NO_VECTOR_MODULE, folder=tmp_path / "places" / "a" / "bin")
    machine.add_java(tmp_path / "places" / "b", "25")
    found = machine.run("java_home.sh", JAVA_HOME=str(tmp_path / "jdk8"), JAVA_PLACES=f"{tmp_path}/places/*")
    assert found == (0, str(tmp_path / "places" / "b"), "")


def test_root_on_debian_gets_the_java_that_the_release_offers(tmp_path):
    machine = Machine(tmp_path, user=0)
    home = tmp_path / "jvm"
    machine.add("apt-cache", CANDIDATES)
    machine.add_java(home, "21")
    machine.add("apt-get", f'[ "$1" = update ] || {shutil.which("ln")} -s {home}/bin/java {machine.bin}/java')
    status, out, said = machine.run("java_home.sh")
    assert (status, out) == (0, str(home))
    assert "none was found: installing the distribution's headless one" in said
    assert machine.calls("apt-get") == [
        "apt-get update -q",
        "apt-get install -y -q --no-install-recommends openjdk-21-jre-headless",
    ]


@pytest.mark.parametrize(
    ("manager", "user", "command"),
    [
        ("apt-get", 1000, "sudo apt-get update && sudo apt-get install -y openjdk-21-jre-headless"),
        ("dnf", 1000, "sudo dnf install -y java-21-openjdk-headless"),
        ("dnf", 0, "dnf install -y java-21-openjdk-headless"),
        ("yum", 1000, "sudo yum install -y java-17-openjdk-headless"),
        ("zypper", 1000, "sudo zypper install -y java-21-openjdk-headless"),
        ("pacman", 1000, "sudo pacman -S --noconfirm jre21-openjdk-headless"),
        ("apk", 0, "apk add openjdk17-jre-headless"),
        ("brew", 501, "brew install openjdk@21"),
    ],
)
def test_without_java_others_are_told_the_command_and_nothing_is_installed(tmp_path, manager, user, command):
    machine = Machine(tmp_path, user=user)
    machine.add(manager)
    machine.add("apt-cache", CANDIDATES)
    status, out, said = machine.run("java_home.sh")
    assert (status, out) == (1, "")
    assert said.splitlines() == [
        "Spark needs Java 17 or newer, and none was found in JAVA_HOME, on the PATH or in the usual places.",
        f"Install it:  {command}",
    ]
    assert machine.calls(manager) == []


def test_without_java_or_a_known_package_manager_the_variable_is_named(tmp_path):
    status, _, said = Machine(tmp_path).run("java_home.sh")
    assert status == 1
    assert said.endswith("Install a Java 17 or newer for this system and set JAVA_HOME to its home.")


def add_python(machine, name, *, outdated=0, without_venv=0):
    return machine.add(name, PYTHON.format(outdated=outdated, without_venv=without_venv))


def test_newest_python_that_makes_environments_is_chosen(tmp_path):
    machine = Machine(tmp_path)
    add_python(machine, "python3.14", outdated=1)
    add_python(machine, "python3.13", without_venv=1)
    chosen = add_python(machine, "python3.12")
    add_python(machine, "python3")
    assert machine.run("python.sh") == (0, str(chosen), "")
    assert machine.run("python.sh", PYTHON="python3") == (0, str(machine.bin / "python3"), "")


def test_python_that_is_too_old_is_refused_with_the_command(tmp_path):
    machine = Machine(tmp_path)
    add_python(machine, "python3", outdated=1)
    machine.add("apt-get")
    status, out, said = machine.run("python.sh")
    assert (status, out) == (1, "")
    assert said.splitlines() == [
        "slidejoin needs Python 3.11, 3.12, 3.13 or 3.14, and none was found.",
        "Install one:  sudo apt-get update && sudo apt-get install -y python3 python3-venv",
    ]


def test_python_without_venv_is_completed_for_root_on_debian(tmp_path):
    machine = Machine(tmp_path, user=0)
    python = add_python(machine, "python3", without_venv=1)
    whole = add_python(machine, "whole")
    machine.add("apt-get", f'[ "$1" = update ] || {shutil.which("cp")} {whole} {python}')
    status, out, said = machine.run("python.sh")
    assert (status, out) == (0, str(python))
    assert "cannot make virtual environments (no ensurepip): installing python3.12-venv" in said
    assert machine.calls("apt-get")[1:] == ["apt-get install -y -q --no-install-recommends python3.12-venv"]


def test_python_without_venv_is_an_error_with_the_command_for_others(tmp_path):
    machine = Machine(tmp_path)
    add_python(machine, "python3", without_venv=1)
    machine.add("apt-get")
    status, out, said = machine.run("python.sh")
    assert (status, out) == (1, "")
    assert said.endswith("Install it:  sudo apt-get update && sudo apt-get install -y python3.12-venv")
    assert machine.calls("apt-get") == []


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [(0, 0, 0), (1, 0, 1), (0, 1, 1), (5, 0, 5)],
)
def test_the_suite_runs_twice_and_a_failure_of_either_run_counts(tmp_path, first, second, status):
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "test.sh", tmp_path / "scripts")
    machine = Machine(tmp_path / "machine")
    body = f'case "$*" in *nojit*) exit {first} ;; *) echo closing line; exit {second} ;; esac'
    machine.add("python", body, folder=tmp_path / ".venv" / "bin")
    command = [str(tmp_path / "scripts" / "test.sh"), "-n", "2"]
    done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert done.stdout.splitlines()[-1] == "closing line"
    assert machine.calls("python") == [
        "python -m pytest --quiet -m nojit and not nightly -n 2",
        "python -m pytest -n 2",
    ]
