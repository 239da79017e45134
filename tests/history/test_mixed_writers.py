"""`explain` and `timeline` read all of a group's history by one release's rules, and say if others wrote it."""

import pytest

import kafkagroups as kg
from kafkagroups.coordinator import Clock, TopicPartition
from tests.groups.test_load_runs import DATA
from tests.history.logs import START, VERSIONS, Broker, commit, rules_of, write_each


@pytest.mark.parametrize("command", ["explain", "timeline"])
@pytest.mark.parametrize(
    ("folder", "kafka", "line"),
    [
        (
            "4.3.1",
            "3.9.2",
            "These records were written by Kafka 4.1 or newer, and not by one that the rules of Kafka 3.9.2",
        ),
        ("4.3.1", "4.3.1", None),
        ("3.9.2", "3.9.2", None),
        ("1.0.1", "1.0.1", None),
        ("1.0.1", "3.9.2", None),  # A newer broker loads the log of an older one after an upgrade.
    ],
)
def test_rules_that_are_older_than_the_records_are_named(command, folder, kafka, line, run):
    """Value version 4 of an offset begins with Kafka 4.1 (kafka/writer_versions.json)."""
    _, out, _ = run(command, DATA / folder, "--group", "billing", "--kafka", kafka)
    text = " ".join(out.split())
    assert line in text if line else "written by Kafka" not in text


@pytest.mark.parametrize(("folder", "kafka"), [("4.3.1", "3.9.2"), ("4.3.1", "4.3.1"), ("3.9.2", "4.3.1")])
def test_stats_warns_of_records_that_are_newer_than_its_rules(folder, kafka, run):
    """The same source. No log of the shop was written by several releases."""
    text = " ".join(run("stats", DATA / folder, "--kafka", kafka)[1].split())
    assert (f"Some records are newer than Kafka {kafka}, whose rules can misread" in text) == (folder > kafka)
    assert "Several Kafka versions wrote" not in text


def test_a_history_of_several_releases_is_named(tmp_path, run):
    """Value version 1 without an expire timestamp ends with Kafka 2.0, version 4 begins with 4.1."""
    path = write_each(tmp_path, [commit(number, START, version=4 if number else 1) for number in range(2)])
    writers = kg.timeline(path, "g").writers
    assert writers == kg.explain(path, "g").writers
    assert writers.startswith("Several Kafka versions wrote these records (0.9 or newer).") and "4.3.1" in writers
    text = " ".join(run("stats", path)[1].split())
    assert "Several Kafka versions wrote this log. The rules of Kafka 4.3.1 tell what is live in all of it." in text
    older = kg.timeline(path, "g", coordinator="classic", kafka="3.9.2").writers
    assert "written by Kafka 4.1 or newer, and not by one that the rules of Kafka 3.9.2 fit" in older


@pytest.mark.parametrize("before", VERSIONS)
@pytest.mark.parametrize("kafka", VERSIONS)
def test_a_deletion_is_told_by_the_coordinator_that_wrote_it(before, kafka, tmp_path):
    """With a group that never had a member, DeleteGroups of the classic coordinator writes only tombstones of offsets
    (GroupMetadataManager.cleanupGroupMetadata, 3.9.2), but the new one writes the group's, too.

    So the tombstones tell whether the group can have been deleted, whichever release reads them after an upgrade or a
    downgrade.
    """
    clock = Clock(START)
    for version in (before, *({*VERSIONS} - {before})):
        broker = Broker(tmp_path, version, clock, topic_ids={"orders": "Jlm7tiTSTTyzsN-NaMyQPQ"})
        broker.commit({0: 5}, seconds=1)
        if version == before < "4":
            broker.coordinator.delete_groups(["app"])
        elif version == before:
            broker.coordinator.offset_delete("app", [TopicPartition("orders", 0)])
        broker.logs.close()
    events = kg.timeline(tmp_path, "app", **rules_of(kafka)).events
    (deleted,) = [each.what for each in events if each.event == "offset_deleted"]
    with_group = " or with the group" if before < "4" else ""
    assert deleted == f"orders-0: 5 deleted, by request or with the topic{with_group}."
