"""A commit of the new coordinator that is in its memory, but not yet in the log."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import kafkagroups as kg
from tests.broker.broker import Broker, need_jars, read_size

pytest.importorskip("kafka", reason="no kafka-python")
from tests.broker import client

pytestmark = pytest.mark.broker

KAFKA = "4.3.1"
LINGER_SECONDS = 4
"""The coordinator waits so long for more records before it appends a batch."""


def test_a_fetch_returns_the_old_offset_until_the_commit_is_confirmed(tmp_path):
    """group.coordinator.append.linger.ms delays the append. A stable fetch waits for it, and gets the new offset.

    A group that is deleted meanwhile is gone after the append, and both requests are answered NONE.
    """
    need_jars(KAFKA)
    broker = Broker(KAFKA, tmp_path, 1)
    try:
        broker.start()
        with client.asking(broker.address) as ask:
            client.find_coordinator(ask, "any")
            broker.wait_until_loaded()
            assert client.create_topic(ask, "t", 1) == client.NONE
            assert client.commit(ask, "g", "t", 0, 1) == client.NONE
        broker.stop()
        properties = broker.folder / "server.properties"
        linger = f"group.coordinator.append.linger.ms={LINGER_SECONDS * 1000}\n"
        properties.write_text(properties.read_text() + linger)
        broker.start()
        broker.wait_until_loaded()
        with ThreadPoolExecutor() as threads, client.asking(broker.address) as ask:
            size = read_size(broker)
            commit = threads.submit(commit_in_thread, broker.address, 2)
            time.sleep(LINGER_SECONDS / 4)
            assert client.offsets(ask, ["g"], stable=False) == {"g": {"t-0": (1, -1, "")}}
            assert (commit.done(), read_size(broker)) == (False, size)
            assert client.offsets(ask, ["g"], stable=True) == {"g": {"t-0": (2, -1, "")}}
            assert read_size(broker) > size
            assert commit.result() == client.NONE

            commit = threads.submit(commit_in_thread, broker.address, 3)
            time.sleep(LINGER_SECONDS / 4)
            deleted = client.delete_groups(ask, ["g"])
            assert commit.result() == client.NONE
            after = client.offsets(ask, ["g"], stable=True)
            assert (list(deleted.values()), after) == ([client.NONE], {"g": {}})
    finally:
        broker.stop()
    assert "g" not in kg.load(broker.partition(0))


def commit_in_thread(address, offset):
    with client.asking(address) as ask:
        return client.commit(ask, "g", "t", 0, offset)
