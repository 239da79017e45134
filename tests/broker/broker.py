"""A real broker in a folder: one node, KRaft, loopback only, started and stopped by its process id.

The jars come from Maven Central once (`make brokers`). Every listener has a free port: PLAINTEXT for everything, and
SASL_SSL, where `admin` may all and `guest` nothing. Nothing expires, nothing is cleaned, no member times out.
"""

import os
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path

from kafkagroups.spark.java import find_java

VERSIONS = ("3.9.2", "4.3.1")
CLASSIC = "3.9.2"
"""The last version with the classic coordinator. It is started with that coordinator."""
HOUR_MS = 3_600_000
START_SECONDS = 120
QUICK = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""JVM options for a short run: little memory, and little time spent on compiling."""
PASSWORD = "coffee-and-cake"

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},SASL_SSL://127.0.0.1:{secure},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
user_admin="{password}" user_guest="{password}";
listener.name.sasl_ssl.ssl.keystore.location={folder}/keys.p12
listener.name.sasl_ssl.ssl.keystore.type=PKCS12
listener.name.sasl_ssl.ssl.keystore.password={password}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:admin
log.dirs={folder}/data
log.cleaner.enable=false
log.index.size.max.bytes=65536
offsets.topic.num.partitions={partitions}
offsets.topic.replication.factor=1
offsets.topic.segment.bytes={segment_bytes}
offsets.retention.minutes=2147483647
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
group.max.session.timeout.ms=2147483647
"""
EXTRA = {
    "3.9.2": "group.coordinator.new.enable=false\ngroup.coordinator.rebalance.protocols=classic\n",
    "4.3.1": "".join(
        f"group.{kind}.max.session.timeout.ms={HOUR_MS}\ngroup.{kind}.session.timeout.ms={HOUR_MS}\n"
        for kind in ("consumer", "share", "streams")
    )
    + "share.coordinator.state.topic.replication.factor=1\nshare.coordinator.state.topic.min.isr=1\n",
}
LOGGING = {
    "3.9.2": (
        "-Dlog4j.configuration=file:",
        "log4j.rootLogger=INFO, out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.out.layout=org.apache.log4j.PatternLayout\n"
        "log4j.appender.out.layout.ConversionPattern=%p %m%n\n",
    ),
    "4.3.1": (
        "-Dlog4j2.configurationFile=",
        "rootLogger.level=info\nrootLogger.appenderRef.out.ref=out\nappender.out.type=Console\nappender.out.name=out\n"
        "appender.out.layout.type=PatternLayout\nappender.out.layout.pattern=%p %m%n\n",
    ),
}
LOADED = r"Finished loading (?:of metadata|offsets and group metadata) from "
FAILED = r"(?:Failed to load metadata|Error loading offsets) from "
NUMBER = r"__consumer_offsets-(\d+)"


def jars(version: str) -> Path:
    """Return the folder where `make brokers` puts a version's jars."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kafkagroups", f"kafka-{version}")


class Broker:
    """One broker in `folder`. It can start and stop many times, and its data stays."""

    def __init__(self, version: str, folder: Path, partitions: int, segment_bytes: int = 100 * 1024 * 1024) -> None:
        self.version = version
        self.folder = folder
        self.partitions = partitions
        self.port, self.secure_port, controller = free_ports(3)
        self.process: subprocess.Popen[bytes] | None = None
        self.before = ""  # what `pull` said when there was no topic yet
        self._java = find_java().command
        (folder / "server.properties").write_text(
            PROPERTIES.format(
                port=self.port,
                secure=self.secure_port,
                controller=controller,
                folder=folder,
                partitions=partitions,
                segment_bytes=segment_bytes,
                password=PASSWORD,
            )
            + EXTRA[version]
        )
        (folder / "logging.properties").write_text(LOGGING[version][1])
        self.ca_file = self._make_certificate()
        self._run("kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", "server.properties")

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def secure_address(self) -> str:
        return f"localhost:{self.secure_port}"

    @property
    def log(self) -> str:
        """Return what the broker printed since its last start."""
        return (self.folder / "server.log").read_text(errors="replace")

    def partition(self, number: int) -> Path:
        return self.folder / "data" / f"__consumer_offsets-{number}"

    def start(self) -> None:
        """Start the broker and wait until it serves requests."""
        with open(self.folder / "server.log", "wb") as log:
            self.process = subprocess.Popen(
                self._command("kafka.Kafka", "server.properties"), cwd=self.folder, stdout=log, stderr=log
            )
        self.wait_for(r"Kafka Server started")

    def wait_for(self, pattern: str, times: int = 1) -> None:
        """Wait until that many different lines match."""
        deadline = time.monotonic() + START_SECONDS
        while len(set(re.findall(pattern, self.log))) < times:
            assert self.process is not None and self.process.poll() is None, f"the broker ended:\n{self.log[-3000:]}"
            assert time.monotonic() < deadline, f"{pattern} did not come:\n{self.log[-3000:]}"
            time.sleep(0.2)

    def wait_until_loaded(self) -> None:
        """Wait until the coordinator has loaded every partition or failed to load it."""
        self.wait_for(f"(?:{LOADED}|{FAILED}){NUMBER}", self.partitions)

    def failed(self) -> set[int]:
        """Return the partitions that the coordinator could not load, according to its log."""
        return {int(number) for number in re.findall(f"{FAILED}{NUMBER}", self.log)}

    def place(self, logs: Path) -> None:
        """Replace the broker's segments by those below `logs`, as if it had crashed with them."""
        for log in logs.iterdir():
            place = self.partition(int(log.name.rpartition("-")[2]))
            for file in place.iterdir():
                if file.name != "partition.metadata":
                    file.unlink()
            for segment in log.glob("*.log"):
                shutil.copy(segment, place)
        data = self.folder / "data"
        for file in (data / ".kafka_cleanshutdown", *data.glob("*-checkpoint")):
            file.unlink(missing_ok=True)

    def stop(self) -> None:
        """Stop the process. SIGTERM comes first: after SIGKILL the next start waits for the old session to end."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def _command(self, *words: str) -> list[str]:
        logging = f"{LOGGING[self.version][0]}{self.folder}/logging.properties"
        return [self._java, *QUICK, logging, "-cp", f"{jars(self.version)}/*", *words]

    def _run(self, *words: str) -> None:
        done = subprocess.run(self._command(*words), cwd=self.folder, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr

    def _make_certificate(self) -> Path:
        """Make the broker's certificate, and return the file with it for clients."""
        keytool = Path(self._java).with_name("keytool")
        store = ["-keystore", "keys.p12", "-storetype", "PKCS12", "-storepass", PASSWORD, "-alias", "broker"]
        make = ["-genkeypair", "-keyalg", "EC", "-dname", "CN=localhost", "-ext", "san=dns:localhost,ip:127.0.0.1"]
        for words in (make, ["-exportcert", "-rfc", "-file", "ca.pem"]):
            command = [str(keytool), *words, *store]
            subprocess.run(command, cwd=self.folder, capture_output=True, check=True, timeout=60)
        return self.folder / "ca.pem"


def free_ports(count: int) -> list[int]:
    """Return that many free ports of the loopback."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
