"""Folders that nobody else can write to: compiled code is loaded from them, and mapped files reach kernels.

A folder is trusted if root, this user, or the owner of this installation alone can change what is in it, directly or by
replacing a folder or link on the way to it:

    /tmp                 root, everybody may write, but sticky: nobody can replace what another user made   passed
    /tmp/slidejoin-ann   ann, 0700                                                                          ann's
    /tmp/slidejoin-ann   bob, 0777                                                        refused for everybody else
"""

from __future__ import annotations

import getpass
import os
import re
import stat
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["UntrustedFolderError", "as_safe_as", "fault_of", "make_own", "own_folder", "user_folder"]

OTHERS, GROUP = stat.S_IWOTH, stat.S_IWGRP
MOST_LINKS = 40
"""Links on the way to a folder, as Linux has it."""

NAME = re.compile(r"\w[\w.-]*")
"""Names of users that can be names of files."""

INSTALLED = Path(__file__).parent.parent


class UntrustedFolderError(OSError):
    """A folder that somebody else can write to, or has made."""


def fault_of(folder: Path) -> str:
    """Return why a folder cannot be trusted, in words that follow its name; nothing if it can, or does not exist.

    Examples
    --------
    >>> from pathlib import Path
    >>> fault_of(Path("cache"))
    'is a relative path'
    """
    if not folder.is_absolute():
        return "is a relative path"
    try:
        for place in _places(folder):
            fault = _fault_at(place, last=place == folder)
            if fault:
                return fault if place == folder else f"is within {place}, which {fault}"
    except FileNotFoundError:
        return ""
    except UntrustedFolderError as error:
        return str(error)
    except OSError as error:
        return f"cannot be looked at ({error.strerror})"
    return ""


def _fault_at(place: Path, *, last: bool) -> str:
    status = place.lstat()
    if stat.S_ISLNK(status.st_mode) and last:
        return "is a link"
    if not hasattr(os, "geteuid"):  # Windows has other rights
        return ""
    if status.st_uid not in _owners():
        return f"belongs to user {status.st_uid}"
    shared = status.st_mode & OTHERS or (status.st_mode & GROUP and status.st_gid and not _alone_in(status.st_gid))
    replaceable = last or not status.st_mode & stat.S_ISVTX
    return "can be written by other users" if shared and replaceable and not stat.S_ISLNK(status.st_mode) else ""


@cache
def _alone_in(group: int) -> bool:
    """Return whether a group is this user's own, with no other member: many systems give each user such a group."""
    import grp  # noqa: PLC0415 - Windows has no groups
    import pwd  # noqa: PLC0415

    try:
        members = grp.getgrgid(group).gr_mem
        me = pwd.getpwuid(os.geteuid())
    except KeyError:  # whoever has no name may be anybody
        return False
    others = (one for one in pwd.getpwall() if one.pw_uid != me.pw_uid)
    return group == me.pw_gid and not {*members} - {me.pw_name} and all(one.pw_gid != group for one in others)


def as_safe_as(folder: Path, other: Path) -> bool:
    """Return whether whoever can write to a folder can write to the other one, too; `folder` must be no link."""
    if not hasattr(os, "geteuid"):
        return True
    status, of_other = folder.lstat(), other.stat()
    writers = OTHERS | GROUP
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid in {*_owners(), of_other.st_uid}
        and not status.st_mode & writers & ~of_other.st_mode
    )


def make_own(folder: Path) -> Path:
    """Create a folder for this user alone where it is missing, and return it.

    Raises
    ------
    UntrustedFolderError
        If it is not this user's; nothing was created then.
    OSError
        If it cannot be created.
    """
    fault = fault_of(folder)
    if not fault:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fault = fault_of(folder)  # somebody may have been faster
    if fault:
        msg = f"{folder} is not used, as it {fault}"
        raise UntrustedFolderError(msg)
    return folder


def own_folder(root: Path) -> Path:
    """Return a folder itself, or this user's folder in it if all users share it, as they do ``/tmp``.

    Examples
    --------
    >>> from pathlib import Path
    >>> own_folder(Path("/home/ann/cache"))
    PosixPath('/home/ann/cache')
    """
    try:
        shared = root.stat().st_mode & OTHERS
    except OSError:
        shared = 0
    return user_folder(root) if shared else root


def user_folder(root: Path) -> Path:
    """Return the place of this user's folder in another one."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # containers run users that have no name
        name = ""
    return root / f"slidejoin-{name if NAME.fullmatch(name) else os.getuid()}"


def _owners() -> set[int]:
    """Return the users that can change what this process runs anyway."""
    return {0, os.geteuid(), INSTALLED.stat().st_uid}


def _places(folder: Path) -> Iterator[Path]:
    """Yield every folder and link on the way to a folder, the root first."""
    place, parts, links = Path(folder.anchor), list(folder.parts[1:]), 0
    yield place
    while parts:
        part = parts.pop(0)
        if part == os.pardir:
            place = place.parent
            continue
        place /= part
        yield place
        if place.is_symlink():
            links += 1
            if links > MOST_LINKS:
                msg = f"leads through more than {MOST_LINKS} links"
                raise UntrustedFolderError(msg)
            target = place.readlink()
            place = Path(target.anchor) if target.is_absolute() else place.parent
            parts = [*target.parts[1 if target.is_absolute() else 0 :], *parts]
