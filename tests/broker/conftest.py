"""One broker of each version per session, always stopped at the end. Without the jars its tests are skipped."""

import shutil

import pytest

from kafkagroups import UsageError
from tests.broker.broker import VERSIONS, Broker, need_jars


@pytest.fixture(scope="session", params=VERSIONS)
def broker(request, tmp_path_factory):
    """A broker whose __consumer_offsets exists and is empty. It is not running."""
    from kafkagroups.repair.pull import pull
    from tests.broker import client, material  # the client is an extra

    version = request.param
    need_jars(version)
    folder = tmp_path_factory.mktemp(f"kafka-{version}-")
    broker = Broker(version, folder, material.PARTITIONS)
    try:
        broker.start()
        with pytest.raises(UsageError) as without_topic:
            pull(broker.address, folder / "nothing")
        broker.before = str(without_topic.value)
        with client.asking(broker.address) as ask:
            client.find_coordinator(ask, "any")
        broker.wait_until_loaded()
        broker.stop()
        yield broker
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def logs(tmp_path_factory):
    """The logs that the brokers load: "written" by this package, and the same logs "compacted" by it."""
    from tests.broker import material

    folder = tmp_path_factory.mktemp("logs")
    material.write(folder / "written")
    assert material.compacted(folder / "written", folder / "compacted") > material.PARTITIONS * 0.9
    return folder


@pytest.fixture(scope="module", params=["written", "compacted"])
def loaded(request, broker, logs):
    """(broker, folder): a broker that has just loaded the logs in that folder."""
    folder = logs / request.param
    broker.place(folder)
    broker.start()
    try:
        broker.wait_until_loaded()
        yield broker, folder
    finally:
        broker.stop()
