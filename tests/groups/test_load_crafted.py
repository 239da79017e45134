"""The loader on hand-made logs, loaded by brokers of 3.9.2 (both coordinators) and of twelve 4.x releases."""

import json

import pytest

import kafkagroups as kg
from tests.captured import captured
from tests.releases.answers import differences

ALL = json.loads((captured("crafted") / "crafted" / "cases.json").read_text())
VERSIONS = json.loads((captured("releases") / "releases" / "crafted_versions.json").read_text())["versions"]
OTHERS = json.loads((captured("crafted") / "crafted" / "other_versions.json").read_text())["versions"]
VERSIONS["3.9.2"] = OTHERS["new-3.9.2"]
"""By release and case: what a 4.x release, or the preview in 3.9.2, answered otherwise than 4.3.1."""
NOT_COMPARED = {
    "b31c": ("groups",),  # A broker cannot describe a group whose members have no protocol.
    "b32": ("groups", "listed"),  # group.max.size is not applied to a loaded log.
    "o-session-0": ("groups", "listed"),  # The session ends at once after the load.
}
"""Parts of the answers that a living broker's limits and timers make."""


@pytest.mark.parametrize(
    ("coordinator", "kafka"), [("classic", "3.9.2"), *(("new", release) for release in sorted(VERSIONS))]
)
def test_crafted_logs_load_as_on_that_broker(coordinator, kafka):
    """Every crafted log: offsets, pending commits, groups and members are what the broker answered."""
    found = []
    for case in ALL:
        name = case["id"]
        answers = case["answers"][coordinator]
        if coordinator == "new":
            answers = answers | VERSIONS[kafka].get(name, {})
        if name.startswith("d-foreign-") or answers["load"] == "broker did not start":
            continue
        log = captured("crafted") / "crafted" / "logs" / name / f"__consumer_offsets-{case['partition']}"
        groups = kg.load(log, coordinator, kafka)
        (partition,) = groups.partitions.values()
        if (partition.error is not None) != (answers["load"] == "failed"):
            found.append(f"{name}: {answers['load']}, found {partition.error}")
        left_out = (*NOT_COMPARED.get(name, ()), *(("listed",) if partition.error else ()))
        answers = {part: said for part, said in answers.items() if part not in left_out}
        found += [f"{name}: {difference}" for difference in differences(groups, answers)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_a_group_in_two_partitions_is_answered_as_by_that_broker(foreign, coordinator):
    """classic has one cache for all partitions, new answers from the home partition; both name the other partitions."""
    groups = kg.load(foreign, coordinator=coordinator, partitions=400)
    for case in ALL:
        if case["id"].startswith("d-foreign-"):
            answers = case["answers"][coordinator]
            for name, expected in answers["groups"].items():
                mine = groups.get(name)
                assert (mine.state.value if mine else "Dead") == expected["state"], name
                offsets = mine.offsets if mine else {}
                assert {str(tp): o.offset for tp, o in offsets.items()} == {
                    tp: o["offset"] for tp, o in answers["offsets"][name].items()
                }
    elsewhere = {"d-foreign-gt-1.g.ex": [294], "d-foreign-gt-2.g.gl": [293]}
    if coordinator == "new":
        elsewhere["d-foreign-a.foreign.ek"] = [292]
    assert groups.elsewhere == elsewhere
    errors = [loaded.error for loaded in groups.partitions.values() if loaded.error]
    assert len(errors) == (coordinator == "classic"), "whichever of the two partitions loads second fails"
