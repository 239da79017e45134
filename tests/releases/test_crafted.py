"""The hand-made logs of `crafted`, loaded by brokers of eleven 4.x releases: their verdicts and answers."""

import json

import pytest

import kafkagroups as kg
from tests.captured import captured
from tests.releases.answers import differences

CASES = json.loads((captured("crafted") / "crafted" / "cases.json").read_text())
VERSIONS = json.loads((captured("releases") / "releases" / "crafted_versions.json").read_text())["versions"]
LEFT_OUT = {
    "b21": "the answer has only the length of a long assignment",
    "b31c": "a broker cannot describe a group whose members have no protocol",
    "b32": "group.max.size is not applied to a loaded log",
    "o-session-0": "the session ends at once after the load",
}


@pytest.mark.parametrize("release", sorted(VERSIONS))
def test_a_crafted_log_loads_as_in_that_release(release):
    found = []
    for case in CASES:
        name = case["id"]
        answers = case["answers"]["new"] | VERSIONS[release].get(name, {})
        if name in LEFT_OUT or name.startswith("d-foreign-") or answers["load"] == "broker did not start":
            continue
        log = captured("crafted") / "crafted" / "logs" / name / f"__consumer_offsets-{case['partition']}"
        groups = kg.load(log, "new", release)
        (partition,) = groups.partitions.values()
        if (partition.error is not None) != (answers["load"] == "failed"):
            found.append(f"{name}: {answers['load']}, found {partition.error}")
        elif not partition.error:
            found += [f"{name}: {difference}" for difference in differences(groups, answers)]
    assert not found, "\n".join(found)
