"""Install what these arguments name into the environment of this Python, by uv, from where pip would take it.

uv installs in a third of pip's time, but reads none of pip's settings: a machine's mirrors, certificates and proxy are
translated for it. What is set for uv itself goes before. If uv cannot be used here, pip does it.

    python scripts/install.py WHAT ARGUMENT ...

WHAT is said first: what is installed, and why it may take long.
"""

from __future__ import annotations

import os
import subprocess
import sys
from ast import literal_eval
from time import monotonic

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
UV = [sys.executable, "-m", "uv", "pip", "install", "--no-config", "--python", sys.executable]
# pyspark comes as a source archive: the wheel that is made of it is unpacked at once, so nothing is gained by deflating
# its 450 MB of Java archives, which are compressed already, and ten seconds are lost.
UV += ["--config-settings-package", "pyspark:--build-option=--compression=stored"]

OF_UV = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
    "timeout": "UV_HTTP_TIMEOUT",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "proxy": "ALL_PROXY",
}
"""uv's name of each setting of pip that says where packages come from."""

SECTIONS = ("global", "install", ":env:")
"""Where pip finds settings; a later one goes before."""


def translated(listed: str) -> dict[str, str]:
    r"""Return pip's settings as environment variables of uv; `listed` is what ``pip config list`` says.

    >>> translated("global.index-url='https://mirror/simple'\\n:env:.cert='/etc/mine.pem'")
    {'UV_DEFAULT_INDEX': 'https://mirror/simple', 'SSL_CERT_FILE': '/etc/mine.pem'}
    >>> translated("install.index-url='https://b/simple'\\nglobal.index-url='https://a/simple'\\nglobal.pre='true'")
    {'UV_DEFAULT_INDEX': 'https://b/simple'}
    >>> translated("global.find-links='/a /b'")
    {'UV_FIND_LINKS': '/a,/b'}
    """
    found: dict[str, str] = {}
    for section in SECTIONS:
        for line in listed.splitlines():
            name, _, value = line.partition("=")
            where, _, setting = name.rpartition(".")
            if where == section and setting in OF_UV:
                between = "," if setting == "find-links" else " "
                found[OF_UV[setting]] = between.join(str(literal_eval(value)).split())
    return found


def environment() -> dict[str, str]:
    """Return the environment in which uv takes packages from where pip would."""
    listed = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, check=False)  # noqa: S603 - pip
    # pip looks for a version in all indexes alike; the locked hashes say which file is the right one.
    return translated(listed.stdout) | {"UV_INDEX_STRATEGY": "unsafe-best-match"} | os.environ


def install(what: str, arguments: list[str]) -> int:
    """Run uv, or pip where uv fails, and return its exit status."""
    say(f"installing {what}")
    start = monotonic()
    # On a terminal uv shows what it is doing; in a log, a line for each of a hundred packages says little.
    quiet = [] if sys.stdout.isatty() else ["--quiet"]
    status = subprocess.run([*UV, *quiet, *arguments], env=environment(), check=False).returncode  # noqa: S603 - uv
    if status:
        say("  uv failed; pip tries the same, which may take some minutes")
        pip = [*PIP, "install", "--quiet", "--use-pep517", *arguments]
        status = subprocess.run(pip, check=False).returncode  # noqa: S603 - pip
    say(f"  {'failed' if status else 'done'}, {monotonic() - start:.0f} s")
    return status


def say(text: str) -> None:
    """Write a line to standard output at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(install(sys.argv[1], sys.argv[2:]))
