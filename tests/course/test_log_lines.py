"""Lines of logs, crafted logs, and the helpers that print in a lesson."""

from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import course
from tests import cases

DATA = Path(__file__).parents[2] / "data" / "harbour"
NINE = str(DATA / "3.9.2" / "__consumer_offsets-9")


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


@pytest.mark.parametrize(("coordinator", "version"), [("classic", "3.9.2"), ("new", "4.3.1")])
@pytest.mark.parametrize("folder", ["crafted", "new_protocols"])
def test_crafted_logs_load_to_what_both_brokers_answered(folder, coordinator, version):
    """data/*/answers.json: offsets, stable offsets and states are those of the brokers, also after a failed load."""
    for name, answers in course.read_answers(folder).items():
        with cases.case(name):
            check_made_log(DATA.parent / folder / name, answers[coordinator], coordinator, version)


def check_made_log(path, said, coordinator, version):
    groups = kg.load(path, coordinator, kafka=version)
    assert bool(groups.failed) == (said["load"] == "failed")
    if groups.failed and coordinator == "new":
        assert not groups
        assert all(answer == {"error": "NOT_COORDINATOR"} for answer in said["offsets"].values())
        return
    assert course.fetch_offsets(groups, said["offsets"]) == said["offsets"]
    classic = {name: group.state.value for name, group in groups.items() if group.type == "classic"}
    described = {name: group["state"] for name, group in said["groups"].items()}
    assert {name: classic.get(name, "Dead") for name in described} == described
    listed = {name: group["state"] for name, group in said["listed"].items()}
    assert {name: group.state.value for name, group in groups.items()} == listed
    stable = course.fetch_offsets(groups, said.get("stable", ()), require_stable=True)
    for name, partitions in said.get("stable", {}).items():
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
