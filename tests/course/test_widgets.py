"""Widgets without a browser: their static forms, and what their controls change. Also lines of logs and helpers."""

import json
import re
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import course

DATA = Path(__file__).parents[2] / "data" / "harbour"
NINE = str(DATA / "3.9.2" / "__consumer_offsets-9")
CRAFTED = DATA.parent / "crafted"
MADE = json.loads((CRAFTED / "answers.json").read_text())


def bundle(widget):
    found = widget._repr_mimebundle_()
    assert {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"} <= set(found)
    assert "<style" not in found["text/html"] and "http" not in found["text/html"]
    return found


def test_the_load_steppers_state_is_the_state_of_a_load_up_to_that_record():
    """After the last record of a batch, the state is that of `load(until=…)`."""
    for coordinator in ("classic", "new"):
        loader = course.LoadStepper(NINE, coordinator)
        offsets = [step.line.record_offset for step in loader.steps]
        assert offsets == list(range(44)) and loader.record_slider.value == 43
        for batch in kg.open_log(NINE):
            loader.record_slider.value = batch.last_offset
            known = kg.load(NINE, coordinator, until=batch.next_offset)
            state = loader.steps[batch.last_offset].state
            assert [line.split(":")[0] for line in state if not line.startswith(" ")] == sorted(known)
            waiting = [offset for group in known.values() for some in group.pending.values() for offset in some]
            assert sum("waits" in line for line in state) == len(waiting)
            assert sum(line.startswith(" ") for line in state) == len(waiting) + sum(
                len(group.offsets) for group in known.values()
            )
            assert f"▶ {loader.steps[batch.last_offset].line}" in loader.view.value


def test_a_load_stepper_steps_to_its_ends_and_lists_each_record_in_its_static_form():
    """The four transactions of the shop's fraud-check (acts.json, act 4), with the effect of every record."""
    loader = course.LoadStepper(NINE, first_offset=22, last_offset=33, shown_offset=31)
    text = bundle(loader)["text/plain"]
    for effect in (
        "24: producer 1 commits                       → 22 and 23 now count\n",
        "27: producer 1 aborts                        → 25 and 26 will never count\n",
        "→ 28 now counts, replaces 22; 29 does not count: 30 is newer\n",
        "33: fraud-check orders-0 = 40, producer 1    → waits for its marker\n",
        "  payments-0   25  by 30\n",
    ):
        assert effect in text, effect
    loader.next.click()
    assert "record 32: waits" in loader.view.value and "payments-1   41  by 32, waits" in loader.view.value
    last = len(loader.steps) - 1
    for _ in range(2):
        loader.next.click()
        assert loader.record_slider.value == last, "it does not wrap"
    loader.record_slider.value = 1
    for _ in range(2):
        loader.previous.click()
        assert loader.record_slider.value == 0
    assert max(map(len, re.sub("<.*?>", "", loader.view.value).splitlines())) < 90, "it fits on a projector"


def test_a_load_stepper_shows_a_load_that_fails():
    """A value of version 9 (crafted f-txn-after) fails the load on both coordinators."""
    for coordinator in ("classic", "new"):
        loader = course.LoadStepper(str(CRAFTED / "f-txn-after"), coordinator)
        assert "a record that cannot be read" in loader.static_text() and "→ the load fails" in loader.static_text()
        assert loader.steps[-1].state[0] == "the load fails: expected a version from 0 to 4, found 9"


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
