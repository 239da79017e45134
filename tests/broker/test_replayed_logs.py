"""A broker of 4.3.1 loads the logs that our coordinator wrote in the recorded conversations, and answers as recorded.

The recorded answers are those of one more broker, which was started on the segments of the recorded one.
"""

import io
import json
from contextlib import redirect_stdout

import pytest

from tests.broker.broker import Broker, need_jars
from tests.broker.material import name
from tests.captured import captured
from tests.command import main

pytest.importorskip("kafka", reason="no kafka-python")
from tests.broker import client

pytestmark = pytest.mark.broker
VERSION = "4.3.1"
PARTITIONS = 4
CONVERSATIONS = sorted((captured("conversations") / "conversations").glob(f"{VERSION}-*"))


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


@pytest.mark.parametrize("case", CONVERSATIONS, ids=lambda folder: folder.name)
def test_our_log_of_a_conversation_is_loaded(empty_broker, tmp_path, case):
    """OffsetFetch of every group of the conversation, and ListGroups."""
    with redirect_stdout(io.StringIO()):
        assert main(["replay", str(case / "conversation.jsonl"), "--out", str(tmp_path / "log")]) == 0
    for partition in range(PARTITIONS):
        (tmp_path / "log" / name(partition)).mkdir(exist_ok=True)
    answers = json.loads((case / "answers.json").read_text(encoding="utf-8"))
    empty_broker.place(tmp_path / "log")
    empty_broker.start()
    try:
        empty_broker.wait_until_loaded()
        assert empty_broker.failed() == set()
        with client.asking(empty_broker.address) as ask:
            assert client.offsets(ask, answers["offsets"], stable=False) == {
                group: recorded_offsets(answer) for group, answer in answers["offsets"].items()
            }
            assert client.listed(ask) == {
                group["groupId"]: (group["protocolType"], group["groupState"], group["groupType"])
                for group in answers["listed"]
            }
    finally:
        empty_broker.stop()


def recorded_offsets(answer):
    """Return offset, leader epoch and metadata by partition, from a recorded OffsetFetch of one group."""
    (group,) = answer["groups"]
    return {
        f"{topic['name']}-{row['partitionIndex']}": (
            row["committedOffset"],
            row["committedLeaderEpoch"],
            row["metadata"],
        )
        for topic in group["topics"]
        for row in topic["partitions"]
    }
