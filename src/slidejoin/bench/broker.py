"""A broker of Kafka to measure with: KRaft mode, one process on loopback, from artefacts that Maven fetches once.

It keeps its records in a folder of its own and may be killed and started again on it. The first one fetches what it
runs on into a cache.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import time
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Self

from slidejoin.errors import SlideJoinError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["PATIENCE", "Broker", "NoMavenError", "create_topics", "delete_topics", "free_ports", "jars", "send_records"]

BROKER = ("org.apache.kafka:kafka_2.13:4.1.1", "org.apache.logging.log4j:log4j-slf4j2-impl:2.25.2")
PATIENCE = 60.0
"""Seconds in which a broker has to answer on a busy machine."""

SHOWN = 4000
"""Signs of a broker's log that an error shows."""

STEP = 10_000
"""Records after which a producer looks whether earlier ones have arrived."""

CLUSTER = "c2xpZGVqb2luLXRlc3RzMQ"
FAST = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}
auto.create.topics.enable=false
num.network.threads=2
num.io.threads=2
num.recovery.threads.per.data.dir=1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
broker.session.timeout.ms=1500
broker.heartbeat.interval.ms=200
controller.quorum.fetch.timeout.ms=500
controller.quorum.election.timeout.ms=200
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=4194304
"""

POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>slidejoin</groupId>
  <artifactId>{name}</artifactId>
  <version>1</version>
  <dependencies>{dependencies}
  </dependencies>
</project>
"""
DEPENDENCY = """
    <dependency>
      <groupId>{0}</groupId>
      <artifactId>{1}</artifactId>
      <version>{2}</version>
      <exclusions>{exclusions}</exclusions>
    </dependency>"""
EXCLUSION = "<exclusion><groupId>{0}</groupId><artifactId>{1}</artifactId></exclusion>"


class NoMavenError(SlideJoinError):
    """Maven is not installed, which fetches a broker."""


def default_cache() -> Path:
    """Return the folder of this user for artefacts."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slidejoin" / "kafka"


def jars(name: str, artefacts: tuple[str, ...], cache: Path, without: tuple[str, ...] = ()) -> Path:
    """Return a folder with the jars of artefacts and of what they need, which Maven fetches the first time.

    Raises
    ------
    NoMavenError
        If they are not there, and Maven neither.
    """
    key = "+".join(one.split(":", 1)[1].replace(":", "-") for one in artefacts)
    folder = cache / name / key
    if (folder / "whole").is_file():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        msg = f"{name}: Maven (mvn) is not installed, which fetches {', '.join(artefacts)}"
        raise NoMavenError(msg)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "whole").is_file():
            exclusions = "".join(EXCLUSION.format(*one.split(":")) for one in without)
            listed = "".join(DEPENDENCY.format(*one.split(":"), exclusions=exclusions) for one in artefacts)
            (folder / "pom.xml").write_text(POM.format(name=name, dependencies=listed), encoding="utf-8")
            subprocess.run(  # noqa: S603 - Maven, of the path
                # In a repository of its own: one with half of an artefact makes Spark's resolver fail.
                [maven, "-q", "-B", f"-Dmaven.repo.local={cache / 'repository'}", "-f", folder / "pom.xml",
                 "dependency:copy-dependencies", f"-DoutputDirectory={folder}", "-DincludeScope=runtime"],
                check=True,
            )  # fmt: skip
            (folder / "whole").touch()
    return folder


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class Broker:
    """A broker on a folder of its own."""

    def __init__(self, folder: Path, cache: Path | None = None) -> None:
        self._cache = default_cache() if cache is None else cache
        self._classes = f"{jars('broker', BROKER, self._cache)}/*"
        self._folder = folder
        self._port, controller = free_ports(2)
        self.address = f"127.0.0.1:{self._port}"
        self._settings = folder / "server.properties"
        shutil.copytree(self._formatted(), folder / "data")
        self._settings.write_text(
            SETTINGS.format(port=self._port, controller=controller, folder=folder / "data"), encoding="utf-8"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def _formatted(self) -> Path:
        """Return an empty folder of records, formatted once for all brokers."""
        made = self._cache / "broker" / f"formatted-{BROKER[0].rpartition(':')[2]}"
        if not made.exists():
            new = self._folder / "formatted"
            settings = self._folder / "format.properties"
            settings.write_text(SETTINGS.format(port=9092, controller=9093, folder=new), encoding="utf-8")
            self._run("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", settings)
            try:
                new.rename(made)
            except OSError:  # another process was first, or another disk
                if not made.exists():
                    shutil.copytree(new, made)
        return made

    def _java(self, *arguments: object) -> list[str]:
        home = os.environ.get("JAVA_HOME")
        java = f"{home}/bin/java" if home else "java"
        return [java, *FAST, "-cp", self._classes, *map(str, arguments)]

    def _run(self, *arguments: object) -> None:
        subprocess.run(self._java(*arguments), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # noqa: S603

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - Java, with what Maven has fetched
                self._java("kafka.Kafka", self._settings), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                said = (self._folder / "log").read_text(encoding="utf-8", errors="replace")[-SHOWN:]
                msg = f"the broker does not start: {said}"
                raise SlideJoinError(msg)
            time.sleep(0.05)

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException  # noqa: PLC0415 - an extra
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - the same

        try:
            with socket.create_connection(("127.0.0.1", self._port), 0.2):
                pass
            return bool(AdminClient({"bootstrap.servers": self.address}).list_topics(timeout=2).brokers)
        except (OSError, KafkaException):
            return False

    def kill(self) -> None:
        """End it at once, as ``kill -9`` does."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(30)
            self._process = None

    def create(self, *topics: str, partitions: int = 1) -> None:
        """Make topics."""
        create_topics(self.address, *topics, partitions=partitions)

    def send(self, topic: str, values: Iterable[bytes | None], keys: Iterable[bytes | None] | None = None) -> None:
        """Write records to a topic, in order, to partitions in turns."""
        send_records(self.address, topic, values, keys)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def create_topics(address: str, *topics: str, partitions: int = 1) -> None:
    """Make topics of a broker, and wait until it knows them: on a busy machine that is later."""
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - an extra
    from confluent_kafka.cimpl import NewTopic  # noqa: PLC0415 - the same

    client = AdminClient({"bootstrap.servers": address})  # which ends with its last name
    for future in client.create_topics([NewTopic(topic, partitions, 1) for topic in topics]).values():
        future.result(PATIENCE)
    deadline = time.monotonic() + PATIENCE
    while True:
        known = client.list_topics(timeout=PATIENCE).topics
        if all(topic in known and len(known[topic].partitions) == partitions for topic in topics):
            return
        if time.monotonic() > deadline:
            msg = f"the broker at {address} does not know its new topics {', '.join(topics)} after {PATIENCE:.0f} s"
            raise SlideJoinError(msg)
        time.sleep(0.05)


def delete_topics(address: str, *topics: str) -> None:
    """Remove topics of a broker."""
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - an extra

    client = AdminClient({"bootstrap.servers": address})
    for future in client.delete_topics(list(topics)).values():
        future.result(PATIENCE)


def send_records(
    address: str, topic: str, values: Iterable[bytes | None], keys: Iterable[bytes | None] | None = None
) -> None:
    """Write records to a topic of a broker, in order, to partitions in turns.

    Raises
    ------
    SlideJoinError
        If the broker does not take them in time.
    """
    from confluent_kafka import Producer  # noqa: PLC0415 - an extra

    producer = Producer({"bootstrap.servers": address, "linger.ms": 5, "queue.buffering.max.messages": 2_000_000})
    partitions = len(producer.list_topics(topic, PATIENCE).topics[topic].partitions)
    for number, (value, key) in enumerate(zip(values, repeat(None) if keys is None else keys, strict=False)):
        producer.produce(topic, value, key, number % partitions)
        if number % STEP == 0:
            producer.poll(0)
    left = producer.flush(PATIENCE)
    if left:
        msg = f"the broker at {address} has not taken {left:,} records in {PATIENCE:.0f} s"
        raise SlideJoinError(msg)
