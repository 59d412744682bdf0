"""What the commands share: two options, JSON output, and error reporting."""

from __future__ import annotations

import json
import sys
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from slidejoin.cli.secrets import SECRETS
from slidejoin.errors import ConfigError, SlideJoinError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slidejoin.cli.progress import Reporter

__all__ = ["Debug", "Json", "document", "errors_told"]

FAILED = 1
BAD_USAGE = 2

Json = Annotated[bool, typer.Option("--json", help="Write JSON for machines.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


@contextmanager
def errors_told(*, debug: bool, listener: Reporter | None = None) -> Iterator[None]:
    """Print an error on standard error and leave: 2 if the command line or the job file is wrong, 1 if it failed."""
    try:
        yield
    except typer.Exit:
        raise
    except Exception as error:
        message = str(error)
        if not isinstance(error, (SlideJoinError, OSError)):
            message = f"unexpected {type(error).__name__}: {message} (--debug shows where)"
        message = SECRETS.out_of(message)
        if listener is not None:
            listener.failed(message)
        if debug:
            sys.stderr.write(SECRETS.out_of(traceback.format_exc()))
        sys.stdout.flush()
        notes = [SECRETS.out_of(note) for note in getattr(error, "__notes__", [])]
        typer.echo("\n".join([f"slidejoin: {message}", *notes]), err=True)
        raise typer.Exit(BAD_USAGE if isinstance(error, ConfigError) else FAILED) from error


def document(values: dict[str, object]) -> str:
    """Return JSON for machines."""
    return json.dumps(values, indent=2)
