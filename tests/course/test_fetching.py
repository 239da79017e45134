"""Lesson 05's own tools: logs that count, fetches of a conversation, and the table of answers."""

import json

import pytest

import kafkagroups as kg
from kafkagroups import course
from tests.course.test_widgets import DATA, bundle

SHOP = str(DATA / "3.9.2")
SAID = json.loads((DATA / "3.9.2" / "answers.json").read_text())


def test_a_fetch_reads_no_record():
    """GroupMetadataManager.getOffsets (3.9) reads groupMetadataCache only."""
    logs = course.CountedLogs(SHOP)
    broker = course.coordinator(logs)
    loaded = logs.records_read
    assert loaded == sum(batch.count for log in DATA.glob("3.9.2/__consumer*") for batch in kg.open_log(log))
    assert {group: course.answered(broker.offset_fetch(group)) for group in SAID["offsets"]} == SAID["offsets"]
    broker.describe_groups(SAID["groups"])
    broker.list_groups()
    assert logs.records_read == loaded


def test_the_table_tells_what_the_broker_answered():
    """Every group of the shop: all and by name, without and with requireStable (answers.json)."""
    table = course.FetchTable(course.coordinator(SHOP), list(SAID["offsets"]), at="fraud-check")
    for _ in table.groups:
        name = table.groups[table.group.value]
        rows = {line.split()[0]: line.split()[1:] for line in table.static_text().splitlines()[3:-2]}
        for partition, (_, _, everything, by_name, all_stable, named_stable) in rows.items():
            for cell, asked in [(everything, "offsets"), (all_stable, "stable")]:
                assert cell == told(SAID[asked][name].get(partition)), (name, partition, asked)
            if partition in SAID["stable_every_live_partition_named"][name]:
                assert named_stable == told(SAID["stable_every_live_partition_named"][name][partition])
            assert by_name == (everything if everything != "·" else "-1")
        table.next.click()
    assert table.groups[table.group.value] == "fraud-check"


def told(there):
    if there is None:
        return "·"
    return there.removesuffix("_OFFSET_COMMIT") if isinstance(there, str) else str(there["offset"])


def test_the_table_has_a_static_form():
    table = course.FetchTable(course.coordinator(SHOP), ["billing", "nobody"], at="nobody")
    shown = bundle(table)
    for form in ("text/plain", "text/html"):
        assert "nobody: not known" in shown[form] and "by name, stable" in shown[form]
    table.previous.click()
    assert "billing: Stable" in table.view.value
    for groups, at in (([], None), (["billing"], "shipping")):
        with pytest.raises(kg.UsageError):
            course.FetchTable(course.coordinator(SHOP), groups, at)


def test_fetches_of_every_version_are_told():
    """3.9.2-fetch: versions 1 to 9; 54 and 55 have orders-0 and orders-1 on their way."""
    told = {fetch.n: fetch for fetch in course.fetches(course.conversation("3.9.2-fetch"))}
    assert {fetch.version for fetch in told.values()} == set(range(1, 10))
    assert all(fetch.broker == fetch.ours for fetch in told.values())
    assert (told[54].asked, told[54].broker["orders-0"]) == ("all", "UNSTABLE_OFFSET_COMMIT")
    assert "orders-1" not in told[54].broker and told[55].broker["orders-1"] == "UNSTABLE_OFFSET_COMMIT"
    assert told[3].asked == "none" and told[10].broker == {}
