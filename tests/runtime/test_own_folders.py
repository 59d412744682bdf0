"""Folders are trusted only if nobody else can change what is in them."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from slidejoin.runtime import own_folders
from slidejoin.runtime.own_folders import (
    UntrustedFolderError,
    as_safe_as,
    fault_of,
    make_own,
    own_folder,
    user_folder,
)

if TYPE_CHECKING:
    from pathlib import Path

SOMEBODY = 54_321
by_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")


def test_a_folder_is_made_for_this_user_alone(tmp_path: Path) -> None:
    made = make_own(tmp_path / "a" / "b")
    assert made.stat().st_mode & 0o777 == 0o700
    assert make_own(made) == made


@pytest.mark.parametrize("mode", [0o777, 0o707, 0o1777])
def test_what_others_can_write_is_not_used(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(mode)
    assert fault_of(folder) == "can be written by other users"
    with pytest.raises(UntrustedFolderError, match=r"shared is not used, as it can be written by other users"):
        make_own(folder)


def test_what_is_within_a_folder_that_others_can_write_is_not_used_either(tmp_path: Path) -> None:
    folder = tmp_path / "open" / "mine"
    folder.mkdir(parents=True)
    folder.parent.chmod(0o777)
    assert fault_of(folder) == f"is within {folder.parent}, which can be written by other users"
    with pytest.raises(UntrustedFolderError):
        make_own(folder / "more")
    assert not (folder / "more").exists()
    # Nobody can replace what others made in a sticky folder.
    folder.parent.chmod(0o1777)
    assert fault_of(folder) == ""


class Users:
    """What a system says of its users and groups."""

    def __init__(self, members: list[str], others: list[tuple[str, int, int]]) -> None:
        self.members = members
        self.all = [SimpleNamespace(pw_name=name, pw_uid=uid, pw_gid=gid) for name, uid, gid in others]
        self.me = SimpleNamespace(pw_name="ann", pw_uid=os.geteuid(), pw_gid=SOMEBODY)

    def put(self, patch: pytest.MonkeyPatch) -> None:
        own_folders._alone_in.cache_clear()
        patch.setattr("grp.getgrgid", lambda _: SimpleNamespace(gr_mem=self.members))
        patch.setattr("pwd.getpwuid", lambda _: self.me)
        patch.setattr("pwd.getpwall", lambda: [self.me, *self.all])


@by_root
@pytest.mark.parametrize(
    ("users", "safe"),
    [
        (Users([], [("bob", 7, 7)]), True),
        (Users(["ann"], []), True),
        (Users(["ann", "bob"], []), False),
        (Users([], [("bob", 7, SOMEBODY)]), False),
    ],
    ids=["own", "named in it", "another member", "the primary group of another"],
)
def test_the_writers_of_a_group_are_others_unless_this_user_is_alone_in_it(
    users: Users, safe: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "group"
    folder.mkdir()
    folder.chmod(0o770)
    assert fault_of(folder) == ""  # the group of root
    os.chown(folder, -1, SOMEBODY)
    own_folders._alone_in.cache_clear()
    assert fault_of(folder) == "can be written by other users"  # a group without a name
    with monkeypatch.context() as patch:
        users.put(patch)
        assert fault_of(folder) == ("" if safe else "can be written by other users")
        users.me.pw_gid = 8
        own_folders._alone_in.cache_clear()
        assert fault_of(folder) == "can be written by other users"
    own_folders._alone_in.cache_clear()


@by_root
def test_what_somebody_else_made_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "taken"
    folder.mkdir()
    os.chown(folder, SOMEBODY, -1)
    assert fault_of(folder) == f"belongs to user {SOMEBODY}"
    assert fault_of(folder / "in") == f"is within {folder}, which belongs to user {SOMEBODY}"


def test_links_are_followed_only_on_the_way(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    link = tmp_path / "link"
    link.symlink_to("real")
    assert fault_of(link) == "is a link"
    assert fault_of(link / "in") == ""
    assert make_own(link / "in") == link / "in"
    real.chmod(0o777)
    assert fault_of(link / "in") == f"is within {real}, which can be written by other users"
    (tmp_path / "round").symlink_to("round")
    assert "leads through more than 40 links" in fault_of(tmp_path / "round" / "in")


@by_root
def test_links_of_somebody_else_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to("real")
    os.lchown(link, SOMEBODY, -1)
    assert fault_of(link / "in") == f"is within {link}, which belongs to user {SOMEBODY}"


def test_relative_paths_depend_on_where_a_process_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UntrustedFolderError, match="is a relative path"):
        make_own(type(tmp_path)("~/.cache"))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_all_users_gets_one_for_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "ann")
    assert own_folder(tmp_path) == tmp_path
    tmp_path.chmod(0o1777)
    assert own_folder(tmp_path) == tmp_path / "slidejoin-ann"
    monkeypatch.setattr("getpass.getuser", lambda: "../ann")
    assert user_folder(tmp_path) == tmp_path / f"slidejoin-{os.getuid()}"


def test_compiled_code_is_as_safe_as_the_sources_beside_it(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    assert as_safe_as(inside, tmp_path)
    inside.chmod(0o777)
    assert not as_safe_as(inside, tmp_path)
    tmp_path.chmod(0o777)
    assert as_safe_as(inside, tmp_path)
    link = tmp_path / "link"
    link.symlink_to(inside)
    assert not as_safe_as(link, tmp_path)
