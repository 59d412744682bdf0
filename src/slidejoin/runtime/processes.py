"""Other Python processes that this one starts: with its flags, without modules of the working directory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

__all__ = ["python_command"]

PROGRAM = """
import json, sys
sys.path[:], arguments = json.loads(sys.argv[1]), json.loads(sys.argv[2])
"""

INSTALLED = str(Path(__file__).parent.parent.parent)


def python_command(program: str, *arguments: object) -> list[str]:
    """Return the command that runs a program in another process of this Python.

    A file ``json.py`` or ``random.py`` in the working directory is no module of it.

    Parameters
    ----------
    program : str
        Its text; the arguments are the list ``arguments`` in it, and `sys` is imported.
    *arguments : object
        What JSON can express.
    """
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001 - as multiprocessing does
    path = [folder for folder in sys.path if Path(folder).is_absolute()]
    if INSTALLED not in path:
        path.append(INSTALLED)  # this package may be in the working directory; behind all others
    safe = [] if "-P" in flags or "-I" in flags else ["-P"]
    return [sys.executable, *flags, *safe, "-c", PROGRAM + program, json.dumps(path), json.dumps(arguments)]
