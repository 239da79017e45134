"""Lines of logs, crafted logs, and the helpers that print in a lesson."""

import json
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import course

DATA = Path(__file__).parents[2] / "data" / "harbour"
NINE = str(DATA / "3.9.2" / "__consumer_offsets-9")
CRAFTED = DATA.parent / "crafted"
MADE = json.loads((CRAFTED / "answers.json").read_text())


def test_every_record_has_a_line():
    """Every record of the shop has a line. The story lists those of partition 12 (acts.json, act 5)."""
    for version in ("1.0.1", "3.9.2", "4.3.1"):
        folder = DATA / version
        records = sum(len(batch.records) for log in folder.glob("__consumer_offsets-*") for batch in kg.open_log(log))
        assert len(course.read_lines(folder)) == records
    mailer = course.read_lines(DATA / "3.9.2" / "__consumer_offsets-12")
    assert [(line.record_type, line.value) for line in mailer][4:] == [
        ("group", 2),
        *[("offset", None)] * 3,
        ("group", None),
    ]
    assert "record of type 5 of loyalty" in repr(course.read_lines(DATA / "4.3.1" / "__consumer_offsets-24"))


@pytest.mark.parametrize("case", MADE)
@pytest.mark.parametrize(("coordinator", "version"), [("classic", "3.9.2"), ("new", "4.3.1")])
def test_crafted_logs_load_to_what_both_brokers_answered(case, coordinator, version):
    """data/crafted: offsets, stable offsets and states are those of the brokers, also after a failed load."""
    said = MADE[case][coordinator]
    groups = kg.load(CRAFTED / case, coordinator, kafka=version)
    assert bool(groups.failed) == (said["load"] == "failed")
    if groups.failed and coordinator == "new":
        assert not groups and all(answer == {"error": "NOT_COORDINATOR"} for answer in said["offsets"].values())
        return
    assert course.fetch_offsets(groups, said["offsets"]) == said["offsets"]
    states = {name: groups[name].state.value if name in groups else "Dead" for name in said["groups"]}
    assert states == {name: group["state"] for name, group in said["groups"].items()}
    stable = course.fetch_offsets(groups, said["stable"], require_stable=True)
    for name, partitions in said["stable"].items():
        for partition, answer in partitions.items():
            assert (stable[name].get(partition) == "UNSTABLE_OFFSET_COMMIT") == ("error" in answer)


def test_notebook_helpers_print_answers_and_bytes(capsys, monkeypatch, tmp_path):
    course.compare_with_broker(1, 1, "3.9.2")
    course.compare_with_broker(1, 2, "3.9.2")
    course.hexdump(b"\x00abc" * 5, 16)
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "✓ a 3.9.2 broker answered the same" and out[1].startswith("✗")
    assert out[2] == "    16  00 61 62 63 00 61 62 63  00 61 62 63 00 61 62 63  ·abc·abc·abc·abc"
    monkeypatch.chdir(DATA.parent.parent / "notebooks")
    assert course.find_data("harbour/1.0.1") == "../data/harbour/1.0.1"
