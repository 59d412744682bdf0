"""Benchmarks to run on your own machine, each next to its baselines: the cases of ``slidejoin bench CASE``."""

from __future__ import annotations

__all__ = ["CASES"]

CASES = {
    "tasks": "five real tasks in rows a second, next to Polars, DuckDB and, with --spark, Spark's own join",
    "spark": "the join on Spark Structured Streaming, next to Spark's own join and a query that only reads",
    "pipeline": "a job file over files of Parquet or topics of Kafka, in one process and, with --spark, on Spark",
    "machine": "random cache lines and bytes a second that memory gives",
}
"""Each case in a line."""
