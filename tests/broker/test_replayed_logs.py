"""A broker of 4.3.1 loads the logs that our coordinator wrote in the recorded conversations, and answers as recorded.

The recorded answers are those of one more broker, which was started on the segments of the recorded one. The records of
consumer groups contain topic ids, and a broker invents the ids of its topics, so these are put into our log.
"""

import io
import json
import re
import struct
import time
from contextlib import redirect_stdout

import pytest

from kafkagroups.coordinator.conversation import INTERNAL_TOPICS, read_conversation
from kafkagroups.coordinator.player import Player
from kafkagroups.log.batch import crc32c
from kafkagroups.log.folders import open_log
from kafkagroups.records.wire import uuid_bytes
from tests.broker.broker import Broker, need_jars
from tests.broker.material import name
from tests.captured import captured
from tests.command import main
from tests.replay.test_conversations import unordered

pytest.importorskip("kafka", reason="no kafka-python")
from tests.broker import client

pytestmark = pytest.mark.broker
VERSION = "4.3.1"
PARTITIONS = 4
CONVERSATIONS = sorted((captured("conversations") / "conversations").glob(f"{VERSION}-*"))
NEW_CONVERSATIONS = sorted((captured("new_conversations") / "conversations_new").glob(f"{VERSION}-*"))
NOT_COORDINATOR = 16
CRC_AT = 17
CRC_FROM = 21
"""Where a batch has its checksum, and from where on it counts."""


@pytest.fixture(scope="module")
def empty_broker(tmp_path_factory):
    """A broker whose __consumer_offsets has as many partitions as in the recordings. It is not running."""
    need_jars(VERSION)
    broker = Broker(VERSION, tmp_path_factory.mktemp("kafka-"), PARTITIONS)
    broker.start()
    with client.asking(broker.address) as ask:
        client.find_coordinator(ask, "any")
    broker.wait_until_loaded()
    broker.stop()
    return broker


@pytest.fixture(scope="module")
def topics_of_broker(empty_broker):
    """The ids of the broker's topics, by name: all that the conversations name."""
    names = {name for case in NEW_CONVERSATIONS for name in play(case, None).topics if name not in INTERNAL_TOPICS}
    empty_broker.start()
    try:
        with client.asking(empty_broker.address) as ask:
            assert {client.create_topic(ask, name, 1) for name in names} == {client.NONE}
            for _ in range(100):  # The broker learns of a topic a moment after its creation.
                ids = client.topic_ids(ask, names)
                if all(ids.values()):
                    break
                time.sleep(0.1)
            return ids
    finally:
        empty_broker.stop()


@pytest.mark.parametrize("case", CONVERSATIONS, ids=lambda folder: folder.name)
def test_our_log_of_a_conversation_is_loaded(empty_broker, tmp_path, case):
    """OffsetFetch of every group of the conversation, and ListGroups."""
    with redirect_stdout(io.StringIO()):
        assert main(["replay", str(case / "conversation.jsonl"), "--out", str(tmp_path / "log")]) == 0
    add_empty_partitions(tmp_path / "log")
    answers = json.loads((case / "answers.json").read_text(encoding="utf-8"))
    empty_broker.place(tmp_path / "log")
    empty_broker.start()
    try:
        empty_broker.wait_until_loaded()
        assert empty_broker.failed() == set()
        with client.asking(empty_broker.address) as ask:
            check_offsets_and_groups(ask, answers)
    finally:
        empty_broker.stop()


def check_offsets_and_groups(ask, answers):
    """Compare OffsetFetch of every group, and ListGroups, with the recorded answers."""
    assert client.offsets(ask, answers["offsets"], stable=False) == {
        group: recorded_offsets(answer) for group, answer in answers["offsets"].items()
    }
    assert client.listed(ask) == {
        group["groupId"]: (group["protocolType"], group["groupState"], group["groupType"])
        for group in answers["listed"]
    }


@pytest.mark.parametrize("case", NEW_CONVERSATIONS, ids=lambda folder: folder.name)
def test_our_log_of_consumer_groups_is_loaded(empty_broker, topics_of_broker, tmp_path, case):
    """ConsumerGroupDescribe with all members and assignments, OffsetFetch, and ListGroups."""
    player = play(case, tmp_path / "log")
    ids = {player.topic_ids[name]: new_id for name, new_id in topics_of_broker.items() if name in player.topics}
    for segment in (tmp_path / "log").glob("*/*.log"):
        replace_ids(segment, {uuid_bytes(old): new.bytes for old, new in ids.items()})
    add_empty_partitions(tmp_path / "log")
    answers = json.loads((case / "answers.json").read_text(encoding="utf-8"))
    described = {group["groupId"]: with_ids(group, ids) for group in answers["consumer_groups"]}
    failed = {group for group, answer in described.items() if answer["error_code"] == NOT_COORDINATOR}
    empty_broker.place(tmp_path / "log")
    empty_broker.start()
    try:
        empty_broker.wait_until_loaded()
        partition_for = player.coordinator.manager.partition_for
        assert empty_broker.failed() == {partition_for(group) for group in failed}
        with client.asking(empty_broker.address) as ask:
            found = client.describe_consumer_groups(ask, VERSION, described)
            assert unordered({group: texts(found[group].to_dict()) for group in found}) == unordered(described)
            check_offsets_and_groups(ask, answers)
    finally:
        empty_broker.stop()


def play(case, out):
    """Play a conversation. Return the player, whose log is in the folder `out` (None: play nothing)."""
    player = Player(*read_conversation(case / "conversation.jsonl"), out or case, recorded_log=case / "log")
    for _ in player.play() if out else ():
        pass
    player.logs.close()
    return player


def add_empty_partitions(folder):
    for partition in range(PARTITIONS):
        (folder / name(partition)).mkdir(exist_ok=True)


def replace_ids(segment, ids):
    """Replace topic ids in a segment whose batches are not compressed."""
    out = bytearray()
    for batch in open_log(segment):
        data = bytes(batch.data)
        for old, new in ids.items():
            data = data.replace(old, new)
        out += data[:CRC_AT] + struct.pack(">I", crc32c(data[CRC_FROM:])) + data[CRC_FROM:]
    segment.write_bytes(out)


def with_ids(value, ids):
    """Return recorded JSON with the broker's topic ids, and with the names that kafka-python gives the fields."""
    if isinstance(value, dict):
        return {
            re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", key): with_ids(ids.get(each, each), ids)
            if key == "topicId"
            else with_ids(each, ids)
            for key, each in value.items()
        }
    return [with_ids(each, ids) for each in value] if isinstance(value, list) else texts(value)


def texts(value):
    """Return the value with UUIDs as text."""
    if isinstance(value, dict):
        return {key: texts(each) for key, each in value.items()}
    if isinstance(value, list):
        return [texts(each) for each in value]
    return str(value) if hasattr(value, "hex") and not isinstance(value, (bytes, float)) else value


def recorded_offsets(answer):
    """Return offset, leader epoch and metadata by partition, from a recorded OffsetFetch of one group; or the error."""
    (group,) = answer["groups"]
    return group["errorCode"] or {
        f"{topic['name']}-{row['partitionIndex']}": (
            row["committedOffset"],
            row["committedLeaderEpoch"],
            row["metadata"],
        )
        for topic in group["topics"]
        for row in topic["partitions"]
    }
