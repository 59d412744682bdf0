"""How a join of many streams would run on Spark: as one operator or as a chain, and why."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from slidejoin.operator.multiway.multi_operator import MultiOperator
from slidejoin.predicate.expression.text import wide_sql

if TYPE_CHECKING:
    from slidejoin.spark.driver.chain import ChainLink
    from slidejoin.spark.driver.multi_join import WiredStreams

__all__ = ["StreamsExplanation", "explained_streams"]


@dataclass(frozen=True, slots=True, repr=False)
class StreamsExplanation:
    """How a join of many streams would run on Spark; it prints as text, all of it.

    Attributes
    ----------
    one_operator : bool
        Whether it is one operator with one exchange; otherwise it is a chain of joins of two.
    why : str
        The reason.
    key : str or None
        The key by whose hash rows are sent, such as ``a.k = b.k = c.k``; None for a chain, and where all rows go to one
        bucket.
    order : tuple of str
        The streams in the order in which a chain joins them; of one operator in that of their declaration.
    strategies : tuple of str
        Of each link of a chain: how rows are routed; empty for one operator.
    buckets : int
        Of the operator, or of each link.
    plan : str
        The plan of every bucket, or the links of the chain.
    """

    one_operator: bool
    why: str
    key: str | None
    order: tuple[str, ...]
    strategies: tuple[str, ...]
    buckets: int
    plan: str

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def __str__(self) -> str:
        """Return the explanation for people."""
        if self.one_operator:
            sent = f"by the hash of {self.key}" if self.key else "all to one bucket"
            lines = ["one operator, one exchange", f"because {self.why}"]
            lines += [f"buckets: {self.buckets}", f"rows are sent once, {sent}", "in each bucket:"]
        else:
            links = f"{len(self.strategies)} joins of two" if len(self.strategies) > 1 else "one join of two"
            lines = [f"a chain of {links}: {', then '.join(self.order)}", f"because {self.why}"]
            lines += [f"buckets of each: {self.buckets}", "links:"]
        return "\n".join([*lines, *(f"  {line}" for line in self.plan.splitlines())])


def explained_streams(wired: WiredStreams) -> StreamsExplanation:
    """Return how a join that was checked would run; nothing is started."""
    plan, one = wired.plan, wired.one
    names = plan.spec.streams
    if one is not None:
        key = " and ".join(map(str, one.classes)) or None
        text = MultiOperator(plan).explain()
        return StreamsExplanation(True, wired.why, key, names, (), len(wired.buckets), text)  # noqa: FBT003
    order = tuple(names[stream] for stream in wired.links[-1].streams)
    strategies = tuple(link.strategy.name for link in wired.links)
    text = "\n".join([f"join of {len(names)} streams on {wide_sql(plan.spec.on)}", *_links(wired)])
    return StreamsExplanation(False, wired.why, None, order, strategies, len(wired.buckets), text)  # noqa: FBT003


def _links(wired: WiredStreams) -> list[str]:
    names, lines = wired.plan.spec.streams, []
    for link in wired.links:
        bound = ", ".join(names[stream] for stream in link.bound)
        lines.append(
            f"{f'({bound})' if len(link.bound) > 1 else bound} with {names[link.stream]}: {_checked(wired, link)}"
        )
        lines.append(f"  strategy: {link.strategy}, because {link.strategy.why}")
    return lines


def _checked(wired: WiredStreams, link: ChainLink) -> str:
    text = " AND ".join(wired.plan.conjuncts[number].text for number in link.conjuncts)
    return text or "every row with every row of the window, because nothing compares them"
