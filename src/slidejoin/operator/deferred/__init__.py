"""Deferred evaluation: a left row's nearest matches or aggregates, looked for once, as the row leaves its window."""
