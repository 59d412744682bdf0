"""Paths mean the same to Python as to Spark, and none that Spark may find elsewhere is looked for on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slidejoin.cli.job import Session
from slidejoin.cli.paths import absolute, expanded, files_below, local_path
from slidejoin.errors import ConfigError

HDFS = {"spark.hadoop.fs.defaultFS": "hdfs://nn:8020"}


@pytest.mark.parametrize(
    ("path", "session", "environment", "local"),
    [
        ("/data/in", Session(), {}, "/data/in"),
        ("/data/in", Session("local-cluster[2, 1, 1024]"), {}, "/data/in"),
        ("file:///data/in", Session(), {}, "/data/in"),
        ("s3a://bucket/in", Session(), {}, None),
        ("/data/in", Session("yarn"), {}, None),
        ("/data/in", Session("spark://host:7077"), {}, None),
        ("file:/data/in", Session("yarn"), {"HADOOP_CONF_DIR": "/etc/hadoop"}, "/data/in"),
        ("/data/in", Session(conf=HDFS), {}, None),
        ("/data/in", Session(conf={"spark.hadoop.fs.default.name": "hdfs://nn"}), {}, None),
        ("file:///data/in", Session(conf=HDFS), {}, "/data/in"),
        ("/data/in", Session(), {"HADOOP_CONF_DIR": "/etc/hadoop"}, None),
        (
            "/data/in",
            Session(conf={"spark.hadoop.fs.defaultFS": "file:///"}),
            {"HADOOP_CONF_DIR": "/etc/hadoop"},
            "/data/in",
        ),
    ],
)
def test_what_is_on_this_machine(
    path: str, session: Session, environment: dict[str, str], local: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert local_path(path, session) == (None if local is None else Path(local))


def test_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert [expanded(path) for path in ("~", "~/in", "a/~", "~nosuchuser/in", "~$lock.csv")] == [
        "/home/me", "/home/me/in", "a/~", "~nosuchuser/in", "~$lock.csv",
    ]  # fmt: skip
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.raises(ConfigError, match="'~/in': the home folder of this user is not known; give the whole path"):
        expanded("~/in")


def test_folders_behind_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "link").symlink_to("deep/er")
    monkeypatch.chdir(tmp_path)
    assert absolute(Path("link")) == tmp_path / "link"
    assert absolute(Path("deep/../link/x")) == tmp_path / "link" / "x"
    assert absolute(Path("link/../x")) == tmp_path / "deep" / "x"  # as the system goes


def test_links_are_followed(tmp_path: Path) -> None:
    """Spark follows them; a loop ends where it begins."""
    outside, source = tmp_path / "outside", tmp_path / "in"
    for file in (outside / "1.csv", outside / "b" / "2.csv", source / "0.csv", source / "z.csv", source / "_tmp" / "x"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (source / ".hidden").touch()
    (source / "gone").symlink_to("nowhere")
    (source / "a").symlink_to(outside)
    (source / "_day=1").symlink_to(outside / "b")
    (outside / "b" / "up").symlink_to(outside)
    (outside / "b" / "own").symlink_to(".")
    found = [str(file.relative_to(source)) for file in files_below(source)]
    assert found == ["0.csv", "_day=1/2.csv", "_day=1/up/1.csv", "a/1.csv", "a/b/2.csv", "z.csv"]
    assert list(files_below(outside / "1.csv")) == [outside / "1.csv"]
    assert not list(files_below(tmp_path / "none"))
