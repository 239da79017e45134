"""The tool of lesson 05: logs that count how many records a broker reads."""

import json

import pytest

import kafkagroups as kg
from kafkagroups import course
from tests.course.test_log_lines import DATA


@pytest.mark.parametrize("kafka", ["3.9.2", "4.3.1"])
def test_a_fetch_reads_no_record(kafka):
    """GroupMetadataManager.getOffsets (3.9) and OffsetMetadataManager.fetchOffsets (4.x) read only the memory."""
    answers = json.loads((DATA / kafka / "answers.json").read_text())
    logs = course.ReadCountingLogs(DATA / kafka)
    broker = course.start_broker(logs, kafka=kafka)
    loaded = logs.records_read
    assert loaded == sum(batch.count for log in DATA.glob(f"{kafka}/__consumer*") for batch in kg.open_log(log))
    for asked, stable in [("offsets", False), ("stable", True)]:
        fetched = {group: broker.offset_fetch(group, require_stable=stable).value for group in answers[asked]}
        assert {group: course.format_offsets(answer) for group, answer in fetched.items()} == answers[asked]
    for group, named in answers["stable_every_live_partition_named"].items():
        partitions = [kg.TopicPartition.parse(name) for name in named]
        assert course.format_offsets(broker.offset_fetch(group, partitions, require_stable=True).value) == named
    broker.describe_groups(answers["groups"])
    broker.list_groups()
    assert logs.records_read == loaded
