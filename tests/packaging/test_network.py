"""Nothing is sent: the package has no client of the network, but for the one that reads the endpoint of a job."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tests.packaging.examples import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = ROOT / "src" / "slidejoin"
NETWORK = {
    "aiohttp", "ftplib", "http", "httpx", "imaplib", "poplib", "requests", "smtplib", "socket", "socketserver", "ssl",
    "starlette", "telnetlib", "urllib3", "uvicorn", "xmlrpc",
}  # fmt: skip
CALLS = {"urllib.request"}
SERVERS = {"bench/broker.py": {"socket"}}
"""Outside of `watch`, which serves its page and its endpoint: a free port for the broker of a benchmark."""


def imported(path: Path) -> set[str]:
    """What a file imports from the network, at its top and in its functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
    return {name.split(".")[0] for name in names} & NETWORK | names & CALLS


def test_only_servers_of_this_machine_use_the_network():
    using = {path.relative_to(PACKAGE).as_posix(): imported(path) for path in sorted(PACKAGE.rglob("*.py"))}
    others = {name: found for name, found in using.items() if found and not name.startswith("watch/")}
    assert others == SERVERS


def test_the_only_client_reads_what_its_user_names():
    """`watch/follow.py` reads the page of a job at the address that is given; the rest of the room serves."""
    clients = {"aiohttp", "httpx", "requests", "urllib3", "urllib.request", "smtplib", "ftplib", "xmlrpc"}
    assert [path.name for path in sorted((PACKAGE / "watch").rglob("*.py")) if imported(path) & clients] == [
        "follow.py"
    ]


def test_an_import_in_a_function_is_seen(tmp_path):
    file = tmp_path / "module.py"
    file.write_text("def f():\n    from urllib import request\n    import http.client\n", encoding="utf-8")
    assert imported(file) == {"urllib.request", "http"}
