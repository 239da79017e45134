"""Real brokers load the logs of the incidents of lesson 14, and answer what the package says.

Each log is placed into a broker that was stopped. The broker of an incident has the version that the symptoms name, or
the nearest version whose jars are here.
"""

import shutil

import pytest

import kafkagroups as kg
from kafkagroups.course.exercises.incidents.catalog import INCIDENTS, SEED
from kafkagroups.tables.group_json import offsets_json, pending_json
from tests.broker.broker import CLASSIC, VERSIONS, Broker, jars

pytest.importorskip("kafka", reason="no kafka-python")
from tests.broker import client

pytestmark = pytest.mark.broker

PARTITIONS = 50
NO_OFFSETS = ({}, 69)
"""What brokers answer for a group without offsets: nothing, or GROUP_ID_NOT_FOUND."""
UNSTABLE = 88
BY_VERSION = {
    version: [incident for incident in INCIDENTS if version == (CLASSIC if incident.kafka < "4" else "4.3.1")]
    for version in VERSIONS
}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A function that starts a broker of a version on the logs in a folder."""
    brokers = {}

    def on_logs(version, logs):
        if not (jars(version) / ".complete").exists():
            pytest.skip(f"no jars of Kafka {version}: make brokers")
        if version not in brokers:
            broker = brokers[version] = Broker(version, tmp_path_factory.mktemp(f"incidents-{version}-"), PARTITIONS)
            broker.start()
            with client.asking(broker.address) as ask:
                client.find_coordinator(ask, "any")
            broker.wait_until_loaded()
        broker = brokers[version]
        broker.stop()
        for partition in range(PARTITIONS):
            for segment in broker.partition(partition).glob("*.log"):
                segment.unlink()
        broker.place(logs)
        broker.start()
        broker.wait_until_loaded()
        return broker

    yield on_logs
    for broker in brokers.values():
        broker.stop()
        shutil.rmtree(broker.folder, ignore_errors=True)


@pytest.mark.parametrize(
    ("version", "incident", "replica"),
    [
        pytest.param(version, each, replica, id=f"{each.name} {replica}".strip())
        for version, those in BY_VERSION.items()
        for each in those
        for replica in each.replicas
    ],
)
def test_a_broker_answers_what_we_load(start, version, incident, replica, tmp_path):
    """Failed partitions and every committed or pending offset are those of the package, for the same bytes."""
    incident.write(tmp_path, SEED)
    logs = tmp_path / replica
    broker = start(version, logs)
    coordinator = "classic" if version == CLASSIC else "new"
    ours = kg.load(logs, coordinator=coordinator, kafka=version, partitions=PARTITIONS)
    assert broker.failed() == set(ours.failed)
    names = sorted(ours.partitions_of)
    with client.asking(broker.address) as ask:
        theirs = client.offsets(ask, names, stable=True)
    for name in names:
        if kg.partition_for(name, PARTITIONS) in ours.failed:
            continue
        assert theirs[name] == say_offsets(ours, name) or (name not in ours and theirs[name] in NO_OFFSETS), name


def say_offsets(ours, name):
    """Return what a stable OffsetFetch of all topics should answer for a group."""
    if name not in ours:
        return {}
    pending = pending_json(ours[name].pending)
    return {
        partition: UNSTABLE if partition in pending else (said["offset"], said["leader_epoch"], said["metadata"])
        for partition, said in offsets_json(ours[name].offsets).items()
    }
