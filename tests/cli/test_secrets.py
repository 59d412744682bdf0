from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from slidejoin.cli import main
from slidejoin.cli.java import JavaProcess
from slidejoin.cli.jobfile import read_job_text
from slidejoin.cli.reporting import JsonReporter, PlainReporter
from slidejoin.cli.secrets import SECRETS, Secrets, is_secret
from slidejoin.errors import ConfigError, SlideJoinError

JOB = """
sources.a = {{ format = "parquet", path = "a", options = {options} }}
join = {{ self_join = "a", on = "l.x < r.x", window = {{ length = "1 s", on = "ts" }} }}
sink = {{ format = "noop" }}
spark = {{ conf = {{ "spark.hadoop.fs.s3a.secret.key" = "wJalrXUtnFEMI" }} }}
"""


@pytest.mark.parametrize(
    "name",
    [
        "password", "spark.ssl.keyPassword", "fs.s3a.secret.key", "accessKey", "api.TOKEN", "sasl.jaas.config",
        "passwd", "google.credentials",
    ],
)  # fmt: skip
def test_names_of_secrets(name: str):
    assert is_secret(name)


@pytest.mark.parametrize(
    "name", ["header", "sep", "spark.driver.memory", "mergeSchema", "maxFilesPerTrigger", "spark.kerberos.keytab"]
)
def test_other_names(name: str):
    assert not is_secret(name)


def test_secrets_of_a_job_are_in_no_message(tmp_path: Path, capsys):
    text = JOB.format(options='{ "sasl.jaas.config" = "user=me pw=pencil7", header = "true" }')
    read_job_text(text, tmp_path)
    for reporter in (PlainReporter(), JsonReporter()):
        reporter.note("refused user=me pw=pencil7, key wJalrXUtnFEMI, header true")
    out = capsys.readouterr().out
    assert out.count("refused ***, key ***, header true") == 2
    assert SECRETS.out_of("s3a://AKIA:pencil@bucket/a: no such key") == "s3a://***@bucket/a: no such key"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("jdbc:postgresql://u:p@ss@host/x", "jdbc:postgresql://***@host/x"),
        ("s3a://AKIA:ab/cd@b/in", "s3a://***@b/in"),
        ("redis://:pencil@host", "redis://***@host"),
        ("https://me@corp:pencil@host", "https://***@host"),
        ("'https://me:pencil@h', mail@h", "'https://***@h', mail@h"),
        ("hdfs://nn:8020/in and me@host", "hdfs://nn:8020/in and me@host"),
    ],
)
def test_logins_in_addresses(address: str, shown: str):
    assert Secrets().out_of(f"no such key: {address}") == f"no such key: {shown}"


@pytest.mark.parametrize("secret", ["a\"b'c", "back\\slash", "grün", "🦆 duck", "tab\tulator", "plain"])
def test_secrets_that_were_written_in_json_or_python(secret: str):
    secrets = Secrets()
    secrets.add({"password": secret})
    for text in (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1]):
        for told in (text, json.dumps(text)[1:-1], repr(text)[1:-1]):
            assert secrets.out_of(f"got {told}!") == "got ***!"


def test_secrets_among_options_of_java():
    secrets = Secrets()
    secrets.add({"spark.driver.extraJavaOptions": "-Xmx1g -Dmy.password='pencil 7' -Dhome=/home/me -Dmy.token=a1b2c3"})
    assert secrets.out_of("pencil 7, a1b2c3, /home/me, -Xmx1g") == "***, ***, /home/me, -Xmx1g"


def test_a_wrong_secret_is_not_shown(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"sources\.a\.options\.password: got \*\*\*, expected text, a number"):
        read_job_text(JOB.format(options='{ password = ["pencil"] }'), tmp_path)


def test_errors_of_the_command_have_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    def refused(*_: object, **__: object) -> None:
        msg = "403 for wJalrXUtnFEMI"
        raise SlideJoinError(msg)

    monkeypatch.setattr("slidejoin.cli.running.run_job", refused)
    file = tmp_path / "job.toml"
    file.write_text(JOB.format(options="{}"))
    for options in ((), ("--debug",), ("--json", "--debug")):
        with pytest.raises(SystemExit):
            main(["run", str(file), *options])
        captured = capsys.readouterr()
        assert "wJalrXUtnFEMI" not in captured.out + captured.err
        assert "slidejoin: 403 for ***" in captured.err
        if "--json" in options:
            assert json.loads(captured.out) == {"event": "failed", "error": "403 for ***"}


SUBMIT = """#!/bin/sh
tr '\\0' '\\n' < /proc/$$/cmdline > "$SHOWN"
exit 3
"""


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")
def test_no_secret_is_on_a_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("pyspark")
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "spark-submit"
    script.write_text(SUBMIT)
    script.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setenv("SHOWN", str(tmp_path / "shown"))
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    settings = {
        "spark.hadoop.fs.s3a.secret.key": "wJalrXUtnFEMI",
        "spark.hadoop.x.url": "https://me:wJalrXUtnFEMI@host",
        "spark.executor.extraJavaOptions": "-Djavax.net.ssl.trustStorePassword=wJalrXUtnFEMI",
        "spark.driver.extraJavaOptions": "-Dmy.password=launch",
        "spark.kerberos.keytab": "/etc/me.keytab",
        "spark.driver.memory": "1g",
    }
    log = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    with pytest.raises(SlideJoinError, match="Java has ended with status 3"):
        JavaProcess().start(settings, tmp_path, log)
    os.close(log)
    shown = (tmp_path / "shown").read_text()
    for setting in ("spark.driver.memory=1g", "spark.kerberos.keytab=/etc/me.keytab", "-Dmy.password=launch"):
        assert setting in shown
    assert "wJalrXUtnFEMI" not in shown


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("spark.my.password:wJalrXUtnFEMI", "--conf ***: expected KEY=VALUE"),
        ("=wJalrXUtnFEMI", "--conf ***: expected KEY=VALUE"),
        ("spark.cores", "--conf spark.cores: expected KEY=VALUE"),
        ("spark.hadoop.fs.s3a.secret.key=wJalrXUtnFEMI", "refused for ***\nSpark's log: ***"),
    ],
)
def test_settings_of_state(
    setting: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def refused(*_: object, **__: object) -> None:
        error = SlideJoinError("refused for wJalrXUtnFEMI")
        error.add_note("Spark's log: wJalrXUtnFEMI")
        raise error

    monkeypatch.setattr("slidejoin.cli.session.spark_session", refused)
    for options in ((), ("--debug",)):
        with pytest.raises(SystemExit):
            main(["state", "checkpoint", "--conf", setting, *options])
        told = capsys.readouterr().err
        assert f"slidejoin: {message}" in told
        assert "wJalrXUtnFEMI" not in told
