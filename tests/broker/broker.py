"""A real broker for the tests: the course's broker, with a secured listener, and with logs that are placed into it.

The jars come from Maven Central once (`make brokers`). Every listener has a free port: PLAINTEXT for everything, and
SASL_SSL, where `admin` may all and `guest` nothing.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kafkagroups.course.real_broker import (
    EXTRA_SETTINGS as EXTRA_SETTINGS,
    QUICK,
    SEGMENT_BYTES,
    RealBroker,
    find_jars,
    has_jars,
)
from kafkagroups.spark.session import find_java

VERSIONS = ("3.9.2", "4.3.1")
CLASSIC = "3.9.2"
"""The last version with the classic coordinator. It is started with that coordinator."""
PASSWORD = "coffee-and-cake"
CLEANER = """
log.cleaner.enable=true
log.cleaner.backoff.ms=200
log.cleaner.min.cleanable.ratio=0.0
log.cleaner.delete.retention.ms=0
"""
"""Settings of a cleaner that cleans every closed segment, with tombstones that expire immediately."""

LOADED = r"Finished loading (?:of metadata|offsets and group metadata) from "
FAILED = r"(?:Failed to load metadata|Error loading offsets) from "
NUMBER = r"__consumer_offsets-(\d+)"


class Broker(RealBroker):
    """One broker in `folder`. It can start and stop many times, and its data stays."""

    extra_ports = 1

    def __init__(self, version: str, folder: Path, partitions: int, segment_bytes: int = SEGMENT_BYTES) -> None:
        super().__init__(version, folder, partitions, segment_bytes)
        self.before = ""  # what `pull` said when there was no topic yet
        self.ca_file = self._make_certificate()

    @property
    def secure_address(self) -> str:
        return f"localhost:{self.ports[0]}"

    def build_settings(self) -> dict[str, str]:
        settings = super().build_settings()
        settings["listeners"] += f",SASL_SSL://127.0.0.1:{self.ports[0]}"
        settings["listener.security.protocol.map"] += ",SASL_SSL:SASL_SSL"
        keystore = "listener.name.sasl_ssl.ssl.keystore"
        return settings | {
            "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
            # Without a handler of its own, Kafka accepts tokens without a signature.
            "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
                'unsecuredLoginStringClaim_sub="admin";'
            ),
            "listener.name.sasl_ssl.plain.sasl.jaas.config": (
                "org.apache.kafka.common.security.plain.PlainLoginModule required "
                f'user_admin="{PASSWORD}" user_guest="{PASSWORD}";'
            ),
            f"{keystore}.location": f"{self.folder}/keys.p12",
            f"{keystore}.type": "PKCS12",
            f"{keystore}.password": PASSWORD,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:admin",
        }

    def partition(self, number: int) -> Path:
        return self.folder / "data" / f"__consumer_offsets-{number}"

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

    def _make_certificate(self) -> Path:
        """Make the broker's certificate, and return the file with it for clients."""
        keytool = Path(self._java).with_name("keytool")
        store = ["-keystore", "keys.p12", "-storetype", "PKCS12", "-storepass", PASSWORD, "-alias", "broker"]
        make = ["-genkeypair", "-keyalg", "EC", "-dname", "CN=localhost", "-ext", "san=dns:localhost,ip:127.0.0.1"]
        for words in (make, ["-exportcert", "-rfc", "-file", "ca.pem"]):
            command = [str(keytool), *words, *store]
            subprocess.run(command, cwd=self.folder, capture_output=True, check=True, timeout=60)
        return self.folder / "ca.pem"


def read_size(broker: Broker) -> int:
    """Return the bytes of all segments of the broker's partition 0."""
    return sum(segment.stat().st_size for segment in broker.partition(0).glob("*.log"))


def need_jars(version: str) -> None:
    """Skip the test if this machine has no jars of a broker."""
    if not has_jars(version):
        pytest.skip(f"no jars of Kafka {version}: make brokers")


def run_dump_tool(version: str, *arguments: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run Kafka's own tool that prints segments."""
    tool = "kafka.tools.DumpLogSegments" if version == CLASSIC else "org.apache.kafka.tools.DumpLogSegments"
    command = [find_java().command, *QUICK, "-cp", f"{find_jars(version)}/*", tool, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
