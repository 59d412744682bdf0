"""What tests of Kafka run on is fetched by Maven, or they say that it is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import brokers

if TYPE_CHECKING:
    from pathlib import Path


def test_without_maven_tests_are_skipped_by_name_but_not_where_all_has_to_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr("tests.brokers.CACHE", tmp_path)
    monkeypatch.setattr("shutil.which", lambda _: None)
    missing = r"connector: Maven \(mvn\) is not installed, which fetches org.apache.spark:spark-sql-kafka"
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=missing):
        brokers.connector()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=missing):
        brokers.connector()


def test_what_is_there_is_not_fetched_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr("tests.brokers.CACHE", tmp_path)
    monkeypatch.setattr("shutil.which", lambda _: None)
    folder = tmp_path / "a" / "x-1+y-2"
    folder.mkdir(parents=True)
    (folder / "whole").touch()
    assert brokers.jars("a", ("g:x:1", "g:y:2")) == folder


def test_free_ports_differ():
    assert len(set(brokers.free_ports(5))) == 5
