"""What `deploy/` has fits together, and its job joins what its generator writes."""

from __future__ import annotations

import fnmatch
import json
import os
import shlex
import subprocess
import sys
import threading
import time
import tomllib
from collections import Counter
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from deploy import generate, health
from slidejoin.cli.run_file import plain_options
from slidejoin.spark import advised_settings
from tests.brokers import Broker, connector, free_ports
from tests.packaging.examples import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

DEPLOY = ROOT / "deploy"
YAML = sorted(path.relative_to(ROOT).as_posix() for path in DEPLOY.rglob("*.yaml"))
DOCKERFILES = ["deploy/Dockerfile", "deploy/spark/Dockerfile"]
COMMAND = [sys.executable, "-c", "from slidejoin.cli import main; main()"]
SPAN = timedelta(seconds=5)
"""The window of the job."""


def documents(path: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((ROOT / path).read_text(encoding="utf-8")))


def of_kind(path: str, kind: str) -> dict[str, Any]:
    (found,) = (one for one in documents(path) if one["kind"] == kind)
    return found


def instructions(path: str) -> list[tuple[str, list[str]]]:
    """Return the instructions of a Dockerfile, each with its words."""
    lines = (line for line in (ROOT / path).read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(words[0], words[1:]) for words in (line.split() for line in joined.splitlines()) if words]


def stages(path: str) -> dict[str, list[tuple[str, list[str]]]]:
    """Return the instructions of each stage of a Dockerfile."""
    found: dict[str, list[tuple[str, list[str]]]] = {}
    name = ""
    for instruction, words in instructions(path):
        if instruction == "FROM":
            name = words[-1]
        found.setdefault(name, []).append((instruction, words))
    return found


def ignored(path: str) -> bool:
    """Whether an image is built without a path of the checkout: the last line that fits decides."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    left_out = False
    for rule in rules:
        pattern = rule.removeprefix("!")
        if fnmatch.fnmatch(path, pattern) or path.startswith(f"{pattern}/"):
            left_out = not rule.startswith("!")
    return left_out


def test_there_are_files_to_check():
    assert {"deploy/compose.yaml", "deploy/kubernetes/embedded.yaml", "deploy/prometheus/prometheus.yaml"} <= {*YAML}


@pytest.mark.parametrize("path", YAML)
def test_yaml_is_read_and_not_empty(path):
    found = documents(path)
    assert found
    assert all(isinstance(one, dict) for one in found)


@pytest.mark.parametrize("path", DOCKERFILES)
def test_an_image_is_made_of_files_that_are_there(path):
    for instruction, words in instructions(path):
        if instruction == "COPY" and not words[0].startswith("--from"):
            for source in words[:-1]:
                assert (ROOT / source).exists(), source
                assert not ignored(source), f"{source} is in .dockerignore"
    assert ignored("docs")
    assert ignored(".venv")


@pytest.mark.parametrize("path", DOCKERFILES)
def test_an_image_runs_without_the_rights_of_root_and_has_its_kernels(path):
    by_stage = stages(path)
    of_user = [words[0] for part in by_stage.values() for instruction, words in part if instruction == "USER"]
    assert of_user == ["10001:10001"]
    text = (ROOT / path).read_text(encoding="utf-8")
    assert "/bin/slidejoin compile" in text
    assert text.count("HEALTHCHECK") == 1
    assert "org.opencontainers.image.version" in text
    copied = [words[0].partition("=")[2] for part in by_stage.values() for _, words in part if "--from=" in words[0]]
    assert copied
    assert {*copied} <= {*by_stage}


def test_portable_kernels_are_looked_up_as_they_were_compiled():
    compiled, used = (
        [words for instruction, words in stages(DOCKERFILES[0])[name] if instruction == "ENV"]
        for name in ("compiled-portable", "portable")
    )
    assert compiled == used


def test_compose_refers_to_files_and_services_that_are_there():
    compose = documents("deploy/compose.yaml")[0]
    services, volumes = compose["services"], compose["volumes"]
    assert {*services} == {"kafka", "topics", "generator", "job", "prometheus", "grafana"}
    for name, service in services.items():
        assert {*service.get("depends_on", {})} <= {*services}, name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in volumes, volume
        if "build" in service:
            context = DEPLOY / service["build"]["context"]
            assert (context / service["build"]["dockerfile"]).is_file()
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
    assert services["topics"]["restart"] == "no"


def test_prometheus_reads_the_job_and_rules_that_are_there():
    settings = documents("deploy/prometheus/prometheus.yaml")[0]
    folder = DEPLOY / "prometheus"
    assert all((folder / name).is_file() for name in settings["rule_files"]), settings["rule_files"]
    targets = [
        target for job in settings["scrape_configs"] for one in job["static_configs"] for target in one["targets"]
    ]
    assert targets == [f"job:{health.PORT}"]


def test_grafana_shows_a_board_of_the_provisioned_data_source():
    boards = sorted((DEPLOY / "grafana").glob("*.json"))
    assert boards
    assert all(json.loads(board.read_text(encoding="utf-8"))["panels"] for board in boards)
    (provider,) = documents("deploy/grafana/provisioning/dashboards/slidejoin.yaml")[0]["providers"]
    mounted = documents("deploy/compose.yaml")[0]["services"]["grafana"]["volumes"]
    assert f"./grafana:{provider['options']['path']}:ro" in mounted


def commands() -> Iterator[tuple[str, list[str]]]:
    """Yield every call of ``slidejoin run`` in these files."""
    words = next(words for instruction, words in stages(DOCKERFILES[0])["base"] if instruction == "CMD")
    yield DOCKERFILES[0], json.loads(" ".join(words))
    pod = of_kind("deploy/kubernetes/embedded.yaml", "StatefulSet")["spec"]["template"]["spec"]
    yield "deploy/kubernetes/embedded.yaml", pod["containers"][0]["args"]


@pytest.mark.parametrize(("path", "command"), [*commands()])
def test_the_command_understands_what_containers_call(path, command):
    assert command[0] == "run"
    taken = plain_options(command[1:])
    assert taken is not None, command
    assert str(taken["file"]) == "/etc/slidejoin/job.toml"
    assert str(taken["metrics"]).endswith(f":{health.PORT}")


def test_the_generator_understands_what_compose_calls():
    services = documents("deploy/compose.yaml")[0]["services"]
    for name in ("topics", "generator"):
        python, program, *arguments = services[name]["entrypoint"]
        assert (python, Path(program).name) == ("python", "generate.py")
        assert generate.options(arguments).brokers == "kafka:9092"


def test_ports_and_folders_of_kubernetes_are_those_of_the_image():
    pod = of_kind("deploy/kubernetes/embedded.yaml", "StatefulSet")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {one["mountPath"] for one in container["volumeMounts"]}
    assert mounts == {"/etc/slidejoin", "/var/lib/slidejoin", "/tmp"}  # noqa: S108 - in a container of its own
    assert [one["containerPort"] for one in container["ports"]] == [health.PORT]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": "/metrics", "port": "metrics"}
    monitored = of_kind("deploy/kubernetes/service-monitor.yaml", "ServiceMonitor")["spec"]
    service = of_kind("deploy/kubernetes/embedded.yaml", "Service")
    assert monitored["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitored["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]


def test_spark_on_kubernetes_has_the_advised_settings():
    application = of_kind("deploy/kubernetes/spark.yaml", "SparkApplication")["spec"]
    settings = dict(application["sparkConf"])
    for part in ("driver", "executor"):
        settings[f"spark.{part}.extraJavaOptions"] = application[part]["javaOptions"]
    advised = advised_settings(int(settings["spark.sql.shuffle.partitions"]))
    assert {name: settings.get(name) for name in advised} == advised
    assert application["executor"]["cores"] * application["executor"]["instances"] == 8
    copied = [words for _, words in stages(DOCKERFILES[1])["runtime"] if "deploy/spark/matches.py" in words]
    assert application["mainApplicationFile"] == f"local://{copied[0][-1]}"


def job_on_kubernetes() -> str:
    text: str = of_kind("deploy/kubernetes/embedded.yaml", "ConfigMap")["data"]["job.toml"]
    return text


def test_the_job_on_kubernetes_is_that_of_compose():
    own = tomllib.loads((DEPLOY / "job.toml").read_text(encoding="utf-8"))
    theirs = tomllib.loads(job_on_kubernetes())
    assert own.pop("embedded") != theirs.pop("embedded")  # there it has more memory
    assert own == theirs


@pytest.mark.parametrize("where", ["compose", "kubernetes"])
def test_the_command_explains_the_job(where, tmp_path):
    text = (DEPLOY / "job.toml").read_text(encoding="utf-8") if where == "compose" else job_on_kubernetes()
    (tmp_path / "job.toml").write_text(text, encoding="utf-8")
    done = subprocess.run([*COMMAND, "explain", "job.toml"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "topic matches of kafka:9092" in done.stdout
    assert "index" in done.stdout


def matches_of(trades: list[dict[str, Any]], quotes: list[dict[str, Any]]) -> Counter[tuple[int, int]]:
    """Return the numbers of the pairs, by plain loops."""
    return Counter(
        (trade["trade"], quote["quote"])
        for trade in trades
        for quote in quotes
        if trade["symbol"] == quote["symbol"]
        and quote["bid"] <= trade["price"] <= quote["ask"]
        and abs(datetime.fromisoformat(trade["ts"]) - datetime.fromisoformat(quote["ts"])) <= SPAN
    )


def values(broker: Broker, topic: str) -> list[dict[str, Any]]:
    return [json.loads(record.value() or b"") for record in broker.records(topic)]


def stays_well(folder: Path) -> tuple[int, str]:
    """Run the job as a container does until its check is passed; return the status after SIGTERM, and what is wrong."""
    (port,) = free_ports(1)
    command = [*COMMAND, "run", "job.toml", "--metrics", f"127.0.0.1:{port}"]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as process:
        wrong, deadline = "not looked at", time.monotonic() + 120
        while wrong and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
            wrong = health.fault(port)
        process.terminate()
        return process.wait(60), wrong


@pytest.mark.spark  # a broker needs Java
def test_the_job_joins_what_the_generator_writes(tmp_path):
    with Broker(tmp_path) as broker:
        assert generate.main(["--brokers", broker.address, "--create-only"]) == 0
        assert generate.main(["--brokers", broker.address, "--rows", "300", "--rate", "5000"]) == 0
        job = (DEPLOY / "job.toml").read_text(encoding="utf-8").replace("kafka:9092", broker.address)
        (tmp_path / "job.toml").write_text(job.replace('"500 ms"', '"available_now"'), encoding="utf-8")
        done = subprocess.run(
            [*COMMAND, "run", "job.toml", "--json"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        (tmp_path / "job.toml").write_text(job, encoding="utf-8")
        assert stays_well(tmp_path) == (0, "")
        trades, quotes, matches = (values(broker, topic) for topic in generate.TOPICS)
    assert (len(trades), len(quotes)) == (300, 300 * generate.QUOTES_PER_TRADE)
    expected = matches_of(trades, quotes)
    assert Counter((one["trade"], one["quote"]) for one in matches) == expected
    assert expected.total() > 100


def test_a_generator_without_a_broker_says_so(capsys, monkeypatch):
    monkeypatch.setattr("deploy.generate.PATIENCE", 0.5)
    assert generate.main(["--brokers", "127.0.0.1:1"]) == 1
    assert capsys.readouterr().err.startswith("Kafka at 127.0.0.1:1: ")


@pytest.mark.nightly
@pytest.mark.spark
def test_the_program_for_spark_joins_what_the_generator_writes(tmp_path):
    import pyarrow.parquet as pq
    from pyspark.find_spark_home import _find_spark_home

    with Broker(tmp_path) as broker:
        assert generate.main(["--brokers", broker.address, "--rows", "300", "--rate", "5000"]) == 0
        settings = advised_settings(2)
        given = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        jars = ",".join(str(jar) for jar in sorted(connector().glob("*.jar")))
        environment = os.environ | {
            "SPARK_HOME": _find_spark_home(),
            "SPARK_DRIVER_BIND_ADDRESS": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        }
        done = subprocess.run(
            [DEPLOY / "spark" / "entrypoint.sh", "driver", "--master", "local[2]", "--jars", jars, *given,
             DEPLOY / "spark" / "matches.py", f"--brokers={broker.address}", f"--checkpoint={tmp_path}/checkpoint",
             f"--output={tmp_path}/out", "--available-now"],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-4000:]
        trades, quotes = (values(broker, topic) for topic in generate.TOPICS[:2])
    rows = [row for path in (tmp_path / "out").glob("*.parquet") for row in pq.read_table(path).to_pylist()]
    assert Counter((one["trade"], one["quote"]) for one in rows) == matches_of(trades, quotes)


class Answer(BaseHTTPRequestHandler):
    """Answers what its server has been given."""

    def do_GET(self) -> None:
        status, text = self.server.answer  # type: ignore[attr-defined]
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def endpoint() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        ((200, '# HELP x\nslidejoin_rows_total{side="left"} 3\n'), 0, ""),
        ((200, "python_info 1\n"), 1, "/metrics has no figure slidejoin_rows_total\n"),
        ((503, ""), 1, "/metrics answers 503 Service Unavailable\n"),
    ],
)
def test_a_container_is_well_if_its_job_has_figures(endpoint, capsys, answer, status, said):
    endpoint.answer = answer
    assert health.main([str(endpoint.server_port)]) == status
    assert capsys.readouterr().err == said


def test_a_container_without_an_endpoint_is_not_well(capsys):
    assert health.main(["1"]) == 1
    assert capsys.readouterr().err.startswith("port 1 does not answer: ")


EXECUTOR = {
    "SPARK_JAVA_OPT_0": "-Dspark.x=1",
    "SPARK_JAVA_OPT_1": "-Dspark.y=a b",
    "SPARK_EXECUTOR_MEMORY": "4096m",
    "SPARK_DRIVER_URL": "spark://driver:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "4",
    "SPARK_APPLICATION_ID": "app",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "pod-3",
}


@pytest.mark.parametrize("what", ["driver", "executor", "other"])
def test_a_pod_of_spark_starts_what_it_is_for(what, tmp_path):
    for program in ("spark/bin/spark-submit", "java/bin/java"):
        path = tmp_path / program
        path.parent.mkdir(parents=True)
        path.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n', encoding="utf-8")
        path.chmod(0o755)
    own = EXECUTOR | {"SPARK_DRIVER_BIND_ADDRESS": "10.0.0.1", "PATH": "/usr/bin:/bin"}
    own |= {"SPARK_HOME": str(tmp_path / "spark"), "JAVA_HOME": str(tmp_path / "java")}
    arguments = {"driver": ["driver", "--x", "a b"], "executor": ["executor"], "other": ["printf", "%s", "a"]}[what]
    done = subprocess.run(
        [DEPLOY / "spark" / "entrypoint.sh", *arguments],
        env=own, cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    said = done.stdout.splitlines()
    if what == "driver":
        assert said[:2] == ["--conf", "spark.driver.bindAddress=10.0.0.1"]
        assert said[-4:] == ["--deploy-mode", "client", "--x", "a b"]
    elif what == "executor":
        assert said[:4] == ["-Dspark.x=1", "-Dspark.y=a b", "-Xms4096m", "-Xmx4096m"]
        place = said.index("org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend")
        assert shlex.join(said[place + 1 :]) == (
            "--driver-url spark://driver:7078 --executor-id 3 --cores 4 --app-id app --hostname 10.0.0.3 "
            "--resourceProfileId 0 --podName pod-3"
        )
    else:
        assert said == ["a"]
