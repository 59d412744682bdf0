"""Run ``pip install`` with these arguments and say what it is doing, at every moment, in few words.

Pip alone is either silent for minutes or tells several lines for each of a hundred packages. On a terminal this is one
one line that changes; elsewhere a line for each step and each large download, and one after every half minute. If pip
fails, all that it said is printed.

    python scripts/pip_install.py WHAT ARGUMENT ...

WHAT is said first: what is installed, and why it may take long.
"""

from __future__ import annotations

import os
import queue
import re
import subprocess
import sys
from threading import Thread
from time import monotonic

PIP = [sys.executable, "-m", "pip", "install", "--use-pep517", "--disable-pip-version-check", "--no-input"]

LARGE = re.compile(r"\((\d{2,}\.\d MB|\d+\.\d GB)\)")
"""Downloads that are worth a line of their own."""

SILENCE = 30.0
"""Seconds after which it is said that work goes on."""

ERASE = "\r\x1b[2K"


class Steps:
    """What pip is doing, out of what it says."""

    def __init__(self) -> None:
        self.packages = 0
        self.now = "starting pip"

    def read(self, line: str) -> bool:
        """Take a line; return whether it begins something that is worth a line of our own."""
        text = line.strip()
        if text.startswith("Collecting "):
            self.packages += 1
            self.now = f"package {self.packages}, {text.split()[1]}"
        elif text.startswith("Downloading ") and ".metadata" not in text:
            self.now = f"package {self.packages}, downloading {shortened(text.removeprefix('Downloading '))}"
            return LARGE.search(text) is not None
        elif text.startswith("Processing "):  # a file of this machine
            self.packages += 1
            self.now = f"package {self.packages}, {shortened(text.split()[1])}"
        elif text.startswith(("Installing build dependencies", "Getting requirements", "Preparing metadata")):
            self.now = f"package {self.packages}, {text.partition(':')[0].lower()}"
        elif text.startswith("Building wheel for ") and "started" in text:
            self.now = f"building {text.split()[3]}"
            return True
        elif text.startswith("Installing collected packages:"):
            self.now = f"unpacking {text.count(',') + 1} packages"
            return True
        return False


def shortened(download: str) -> str:
    """Return a file and its size, without what says on which machines it runs.

    >>> shortened("numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl (16.8 MB)")
    'numpy-2.4.6 (16.8 MB)'
    >>> shortened("https://host/packages/pyspark-4.1.1.tar.gz (455.3 MB)")
    'pyspark-4.1.1.tar.gz (455.3 MB)'
    """
    file, _, size = download.partition(" ")
    name = file.rpartition("/")[2]
    if name.endswith(".whl"):
        name = "-".join(name.split("-")[:2])
    return f"{name} {size}".strip()


def lasted(seconds: float) -> str:
    """Return how long something has taken.

    >>> lasted(42.4), lasted(130)
    ('42 s', '2 min 10 s')
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def install(what: str, arguments: list[str]) -> int:
    """Run pip and return its exit status."""
    say(f"installing {what}\n")
    live, start = sys.stdout.isatty(), monotonic()
    steps, said, lines, last = Steps(), [], queue.SimpleQueue[str | None](), start
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(  # noqa: S603 - pip
        [*PIP, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as pip:

        def read() -> None:
            for line in pip.stdout or ():
                lines.put(line)
            lines.put(None)

        Thread(target=read, daemon=True).start()
        while True:
            try:
                line = lines.get(timeout=0.5)
            except queue.Empty:
                line = ""
            if line is None:
                break
            said.append(line)
            worth = steps.read(line)
            if live:
                text = f"{ERASE}  {steps.now}, {lasted(monotonic() - start)}"
                say(text[: columns() + len(ERASE)])
            elif worth or monotonic() - last > SILENCE:
                last = monotonic()
                say(f"  {steps.now}, {lasted(last - start)}\n")
    say(ERASE if live else "")
    took = lasted(monotonic() - start)
    if pip.returncode:
        sys.stderr.write("".join([*said, f"pip failed with status {pip.returncode} after {took}\n"]))
    else:
        say(f"  done, {took}\n")
    return pip.returncode


def say(text: str) -> None:
    """Write to standard output at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def columns() -> int:
    """Return how many characters fit into a line of the terminal."""
    try:
        return os.get_terminal_size().columns - 1
    except OSError:
        return 79


if __name__ == "__main__":
    try:
        sys.exit(install(sys.argv[1], sys.argv[2:]))
    except KeyboardInterrupt:
        sys.exit(130)
