"""The tools of lesson 05: logs that count reads, fetches of a conversation, and the table of answers."""

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


@pytest.mark.parametrize("name", sorted(ANSWERS["offsets"]))
def test_the_table_shows_what_the_broker_answered(name, capsys):
    """For every group of the shop: all and by name, without and with requireStable (answers.json)."""
    course.print_fetches(course.start_broker(SHOP), name)
    rows = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()[1:-1]}
    for partition, (_, _, everything, by_name, all_stable, named_stable) in rows.items():
        for cell, asked in [(everything, "offsets"), (all_stable, "stable")]:
            assert cell == format_answer(ANSWERS[asked][name].get(partition)), (partition, asked)
        if partition in ANSWERS["stable_every_live_partition_named"][name]:
            assert named_stable == format_answer(ANSWERS["stable_every_live_partition_named"][name][partition])
        assert by_name == (everything if everything != "·" else "-1")


def format_answer(answer):
    if answer is None:
        return "·"
    return answer.removesuffix("_OFFSET_COMMIT") if isinstance(answer, str) else str(answer["offset"])


def test_the_first_fetches_are_printed_with_the_brokers_answers(capsys):
    """3.9.2-fetch, requests 2 to 12: all partitions, none, and one partition by name."""
    course.print_all_and_by_name(course.read_exchanges("3.9.2-fetch"))
    rows = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert rows[1] == ["f", "all", "clicks-1: 5, orders-0: 1, orders-2: 3, pay-ments-2: -1"]
    assert rows[8] == ["no-group", "orders-0", "orders-0: -1"]
    assert len(rows) == 10
