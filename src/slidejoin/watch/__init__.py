"""The figures of a running join, and who shows them: an endpoint, a live page, a terminal, a report.

- `metrics`: the figures of a join as they are now, also as `slidejoin.metrics`.
- `serve`: serves them to Prometheus.
- `JoinCollector`: gives them to a registry of `prometheus_client` that you have already.
- `instrument`: gives them to OpenTelemetry.
- `Reading`, `Histogram`: what `metrics` returns.

Names are loaded when they are first used, as those of `slidejoin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slidejoin.watch.collect import metrics
    from slidejoin.watch.endpoint import JoinCollector
    from slidejoin.watch.exporters import instrument, serve
    from slidejoin.watch.reading import Histogram, Reading

__all__ = ["Histogram", "JoinCollector", "Reading", "instrument", "metrics", "serve"]

_HOME = {
    "Histogram": "reading",
    "JoinCollector": "endpoint",
    "Reading": "reading",
    "instrument": "exporters",
    "metrics": "collect",
    "serve": "exporters",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - PEP 562: whatever the name stands for
    """Load a public name when it is first used (PEP 562)."""
    from importlib import import_module  # noqa: PLC0415 - a program that uses no name needs nothing

    if name not in _HOME:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    """List the public names, loaded or not, and what every module has."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
