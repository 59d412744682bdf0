"""Say whether the job of this container is well: its endpoint of figures answers, and has the rows of both sides.

The check of the image. The exit status is 0 if so, and 1 otherwise, with the reason. It needs no package.
"""

from __future__ import annotations

import http.client
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

PORT = 9464
PATIENCE = 4.0
FIGURE = "slidejoin_rows_total"
OK = 200


def fault(port: int) -> str:
    """Return what is wrong; nothing if all is well."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return f"port {port} does not answer: {error}"
    finally:
        connection.close()
    if answer.status != OK:
        return f"/metrics answers {answer.status} {answer.reason}"
    if not any(line.startswith(FIGURE) for line in text.splitlines()):
        return f"/metrics has no figure {FIGURE}"
    return ""


def main(arguments: Sequence[str]) -> int:
    """Check the port that is given, or 9464."""
    wrong = fault(int(arguments[0]) if arguments else PORT)
    if wrong:
        sys.stderr.write(f"{wrong}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
