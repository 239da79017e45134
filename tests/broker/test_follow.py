"""`pull --follow` under a 4.3.1 broker whose cleaner is at work, killed 20 times: no batch is lost or kept twice."""

import json
import random
import signal
import subprocess
import sys
import time

import pytest

import kafkagroups as kg
from tests.broker.broker import CLEANER, Broker, need_jars

pytest.importorskip("kafka", reason="no kafka-python")
from tests.broker import client
from tests.broker.test_rescue import fill_topics

pytestmark = pytest.mark.broker

KAFKA = "4.3.1"
KILLS = 20
LONG_METADATA = "m" * 4000  # A segment has at least 1 MiB, and the cleaner cleans closed ones only.


def test_what_the_broker_held_at_a_fetch_is_kept_once(tmp_path):
    """The commit with offset N is the record with offset N; each is in the copy, or in a gap of follow.json."""
    need_jars(KAFKA)
    (tmp_path / "broker").mkdir()
    broker = Broker(KAFKA, tmp_path / "broker", 1)
    with open(tmp_path / "broker" / "server.properties", "a") as properties:
        properties.write(f"offsets.topic.segment.bytes=1048576{CLEANER}")
    history = tmp_path / "history"
    rng = random.Random(20)
    committed = 0
    try:
        broker.start()
        fill_topics(broker, {"t": 3})
        command = [sys.executable, "-m", "kafkagroups", "pull", "--follow", "--bootstrap", broker.address]
        with client.asking(broker.address) as ask:
            client.find_coordinator(ask, "any")
            broker.wait_until_loaded()
            for _ in range(KILLS):
                follower = subprocess.Popen([*command, "--out", str(history)], stderr=subprocess.PIPE)
                end = time.monotonic() + rng.uniform(1.5, 4)
                while time.monotonic() < end:
                    assert (
                        client.commit(ask, f"g{rng.randrange(5)}", "t", rng.randrange(3), committed, LONG_METADATA) == 0
                    )
                    committed += 1
                follower.send_signal(signal.SIGKILL)
                follower.wait()
                for _ in range(rng.randrange(400)):
                    assert (
                        client.commit(ask, f"g{rng.randrange(5)}", "t", rng.randrange(3), committed, LONG_METADATA) == 0
                    )
                    committed += 1
            follower = subprocess.Popen([*command, "--out", str(history)], stderr=subprocess.PIPE, text=True)
            end = time.monotonic() + 60
            while time.monotonic() < end and _read_state(history).get("next") != committed:
                time.sleep(0.5)
            follower.send_signal(signal.SIGINT)
            assert follower.wait(30) == 0, follower.stderr.read()
    finally:
        broker.stop()
    state = _read_state(history)
    assert state["next"] == committed
    kept = {}
    for batch in kg.open_log(history / "__consumer_offsets-0"):
        for record in batch.records:
            assert record.offset not in kept
            kept[record.offset] = kg.decode(record.key, record.value).value.offset
    missing = {offset for first, end in state["gaps"] for offset in range(first, end)}
    assert kept == {offset: offset for offset in range(committed) if offset not in missing}
    held = {record.offset for batch in kg.open_log(broker.partition(0)) for record in batch.records}
    assert held <= kept.keys()
    assert len(held) < len(kept), "the cleaner of the broker has removed nothing"


def _read_state(history):
    try:
        return json.loads((history / "follow.json").read_text())["partitions"]["0"]
    except (FileNotFoundError, KeyError):
        return {}
