"""`explain` and `timeline` read all of a group's history by one release's rules, and say if others wrote it."""

import pytest

import kafkagroups as kg
from tests.groups.test_load_runs import DATA
from tests.handmade import encode_batch
from tests.history.test_findings import START, commit, write


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


def test_a_history_of_several_releases_is_named(tmp_path):
    """Value version 1 without an expire timestamp ends with Kafka 2.0, version 4 begins with 4.1."""
    path = write(tmp_path, [encode_batch([commit(number, START, version=4 if number else 1)]) for number in range(2)])
    expected = (
        "Several Kafka versions wrote these records (0.9 or newer). All of them are read by the rules of Kafka 4.3.1."
    )
    assert kg.explain(path, "g").writers == expected
    assert kg.timeline(path, "g").writers == expected
