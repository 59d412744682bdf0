"""The plan of a join of many streams in words: for each stream the order in which its rows probe, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.predicate.expression.text import wide_sql
from slidejoin.spec.options import ALWAYS
from slidejoin.spec.window import CountWindow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slidejoin.operator.multiway.figures import StepFigures
    from slidejoin.operator.multiway.orders import OrderAdvisor
    from slidejoin.operator.multiway.stream_window import StreamWindow
    from slidejoin.plan.multiway.multi_plan import MultiPlan, Step
    from slidejoin.spec.window import Window

__all__ = ["explained"]


def explained(
    plan: MultiPlan,
    orders: Sequence[tuple[int, ...]],
    windows: Sequence[StreamWindow],
    advisor: OrderAdvisor,
    figures: StepFigures,
) -> str:
    """Return the orders, the steps with their indexes and figures, and the reason."""
    spec, names = plan.spec, plan.spec.streams
    lines = [f"join of {len(names)} streams on {wide_sql(spec.on)}"]
    lines += [f"window of {name}: {_window(window)}" for name, window in zip(names, spec.windows, strict=True)]
    if plan.never:
        lines.append("a constant part of the predicate is not true, so that nothing matches")
    for stream, order in zip(plan.streams, orders, strict=True):
        lines.append(f"a row of {names[stream]} probes {', then '.join(names[stored] for stored in order)}")
        bound = frozenset({stream})
        for stored in order:
            step = plan.step(stored, bound)
            lines.append(f"  {names[stored]}: {_conditions(plan, step)}")
            estimate, figure = advisor.estimate(stored, bound), figures.steps.get((stored, bound))
            found = f"{_figure(estimate.matches)} rows a probe {estimate.source}"
            if figure is not None and figure.probes:
                found = f"{_figure(figure.rate)} rows a probe of {figure.probes:,} so far"
            link = windows[stored].links[step.key].window
            lines.append(f"    index: {ALWAYS.get(link.chosen.algorithm, 'one for each branch of OR')}; {found}")
            bound |= {stored}
    lines.append(_why(plan, advisor))
    return "\n".join(lines)


def _window(window: Window) -> str:
    if not isinstance(window, CountWindow):
        return str(window)
    slide = f", in blocks of {window.slide:,}" if window.slide > 1 else ""
    return f"the last {window.right:,} row{'' if window.right == 1 else 's'}{slide}"


def _conditions(plan: MultiPlan, step: Step) -> str:
    if not any(len(plan.conjuncts[number].streams) > 1 for number in step.conjuncts):
        text = " AND ".join(plan.conjuncts[number].text for number in step.conjuncts)
        return (
            f"every row of the window{f' with {text}' if text else ''}, because nothing compares it with those before"
        )
    return " AND ".join(plan.conjuncts[number].text for number in step.conjuncts)


def _why(plan: MultiPlan, advisor: OrderAdvisor) -> str:
    if len(plan.streams) == 2:  # noqa: PLR2004 - one probes the other
        return "because there are two streams, which leaves one order"
    changed = f"; changed {advisor.changes} times so far" if advisor.changes else ""
    if plan.spec.memory_limit is not None:
        return "because of the shapes of the conditions: orders are not changed under memory_limit"
    return f"because steps that find few rows come first, by matches a probe; looked at again as rows come{changed}"


def _figure(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"  # noqa: PLR2004 - three digits
