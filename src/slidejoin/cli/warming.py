"""The command that compiles all kernels ahead of time."""

from __future__ import annotations

from time import perf_counter

import typer

from slidejoin.cli.common import Debug, Json, document, errors_told

__all__ = ["warmup"]


def warmup(*, json: Json = False, debug: Debug = False) -> None:
    """Compile everything now and keep it on disk, so that the first push of later processes need not."""
    with errors_told(debug=debug):
        start = perf_counter()
        from slidejoin.kernels.jit.warming import warm_up  # noqa: PLC0415 - loads Numba, part of what is measured

        done, seconds = warm_up(), perf_counter() - start
        kernels = [kernel._asdict() for kernel in done]
        if json:
            typer.echo(document({"seconds": seconds, "kernels": kernels}))
            return
        for kernel in done:
            source = "from the cache" if kernel.from_cache else "compiled"
            typer.echo(f"{kernel.kernel:<32} {source:<15} {kernel.seconds:8.3f} s")
        compiled = sum(not kernel.from_cache for kernel in done)
        typer.echo(f"{len(done)} kernels ready in {seconds:.1f} s, {compiled} of them compiled now")
