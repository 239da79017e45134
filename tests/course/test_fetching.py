"""The tools of lesson 05: logs that count reads, and each way to ask for offsets."""

import json

import pytest

import kafkagroups as kg
from kafkagroups import course
from tests.course.test_log_lines import DATA

SHOP = str(DATA / "3.9.2")
ANSWERS = json.loads((DATA / "3.9.2" / "answers.json").read_text())


def test_a_fetch_reads_no_record():
    """GroupMetadataManager.getOffsets (3.9) reads groupMetadataCache only."""
    logs = course.ReadCountingLogs(SHOP)
    broker = course.start_broker(logs)
    loaded = logs.records_read
    assert loaded == sum(batch.count for log in DATA.glob("3.9.2/__consumer*") for batch in kg.open_log(log))
    assert {group: course.format_offsets(broker.offset_fetch(group)) for group in ANSWERS["offsets"]} == ANSWERS[
        "offsets"
    ]
    broker.describe_groups(ANSWERS["groups"])
    broker.list_groups()
    assert logs.records_read == loaded


@pytest.mark.parametrize("kafka", ["3.9.2", "4.3.1"])
def test_each_way_to_ask_is_answered_as_by_the_broker(kafka):
    """answers.json, for every group: all partitions, without and with requireStable, and by name with it."""
    said = json.loads((DATA / kafka / "answers.json").read_text())
    broker = course.start_broker(str(DATA / kafka), kafka=kafka)
    for group, offsets in said["offsets"].items():
        assert course.format_offsets(broker.offset_fetch(group)) == offsets
        assert course.format_offsets(broker.offset_fetch(group, require_stable=True)) == said["stable"][group]
        named = said["stable_every_live_partition_named"][group]
        partitions = [kg.TopicPartition.parse(name) for name in named]
        assert course.format_offsets(broker.offset_fetch(group, partitions, require_stable=True)) == named
