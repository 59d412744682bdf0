"""The README's example on Spark, in the session of these tests; at night it is a program of its own (test_readme)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.packaging.examples import examples_of, lines

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

END = "spark.stop()\n"


def test_it_prints_what_the_readme_shows(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    *_, example = examples_of("README.md")
    assert example.code.endswith(END)
    assert example.shown is not None
    exec(compile(example.code.removesuffix(END), "README.md", "exec"), {})  # noqa: S102 - the example
    assert lines(capsys.readouterr().out) == lines(example.shown)
