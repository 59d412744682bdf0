"""The script that looks for Chromium, on machines made up of stub commands."""

from __future__ import annotations

import pytest

from tests.packaging.test_scripts import Machine

DEBIAN, UBUNTU = 'PRETTY_NAME="Debian"\nID=debian\n', "ID=ubuntu\nID_LIKE=debian\n"


@pytest.fixture
def release(tmp_path):
    """Write the file that names the system, and return its path."""

    def written(text):
        file = tmp_path / "os-release"
        file.write_text(text, encoding="utf-8")
        return str(file)

    return written


def test_the_first_browser_that_starts_is_taken(tmp_path):
    machine = Machine(tmp_path)
    machine.add("chromium-browser", "exit 1")  # as Ubuntu's, which only says that a snap is needed
    chrome = machine.add("google-chrome")
    assert machine.run("chromium.sh") == (0, str(chrome), "")
    chromium = machine.add("chromium")
    assert machine.run("chromium.sh") == (0, str(chromium), "")


def test_root_on_debian_gets_the_one_of_the_distribution(tmp_path, release):
    machine = Machine(tmp_path, user=0)
    own = tmp_path / "elsewhere" / "chromium"
    machine.add("chromium", folder=own.parent)
    machine.add("ln", f'/bin/ln -s {own} "$1"')
    machine.add("apt-get", f'[ "$1" = update ] || ln {machine.bin}/chromium')
    status, out, said = machine.run("chromium.sh", OS_RELEASE=release(DEBIAN))
    assert (status, out) == (0, str(machine.bin / "chromium"))
    assert "none was found: installing the distribution's" in said
    assert machine.calls("apt-get") == [
        "apt-get update -q",
        "apt-get install -y -q --no-install-recommends chromium",
    ]


@pytest.mark.parametrize(
    ("manager", "user", "system", "command"),
    [
        ("apt-get", 1000, DEBIAN, "sudo apt-get update && sudo apt-get install -y chromium"),
        ("apt-get", 0, UBUNTU, "apt-get update && apt-get install -y chromium"),
        ("dnf", 0, "ID=fedora\n", "dnf install -y chromium"),
        ("zypper", 1000, "", "sudo zypper install -y chromium"),
        ("pacman", 1000, "", "sudo pacman -S --noconfirm chromium"),
        ("apk", 0, "", "apk add chromium"),
        ("brew", 501, "", "brew install --cask chromium"),
    ],
)
def test_others_get_the_command_and_nothing_is_installed(tmp_path, release, manager, user, system, command):
    machine = Machine(tmp_path, user=user)
    machine.add(manager)
    status, out, said = machine.run("chromium.sh", OS_RELEASE=release(system))
    assert (status, out) == (1, "")
    assert said.splitlines() == [
        "Tests of the live page need Chromium, and none was found on the PATH.",
        f"Install it:  {command}",
    ]
    assert machine.calls(manager) == []


def test_without_a_known_package_manager_the_path_is_named(tmp_path, release):
    status, _, said = Machine(tmp_path).run("chromium.sh", OS_RELEASE=release(""))
    assert status == 1
    assert said.endswith("Install Chromium or Chrome for this system, with its program on the PATH.")
