"""Static members whose instance id gets a new member id again and again."""

import pytest

from tests.captured import captured
from tests.handmade import classic_member, generation, write_batches
from tests.history.logs import MINUTE, SECOND, find, find_and_check, rules_of

FENCED_GROUP = "b-static-fenced"
"""The group of the captured runs in which two processes have the same group.instance.id on purpose."""
POD = {"session_ms": 60_000, "rebalance_ms": 600_000, "rack": "rack-c"}
COPY = {"session_ms": 45_000, "rebalance_ms": 300_000, "rack": None}


def member(instance_id, number, **settings):
    """The member record of the process that got the member id with this number."""
    settings = POD | {"rack": None} | settings
    return classic_member(f"{instance_id}-{number}", instance=instance_id, host="/127.0.0.7", **settings)


def write_log(folder, generations):
    """Write a group record for each of the times and members."""
    batches = [(time, [generation(1, *members, group="booker")]) for time, members in generations]
    return write_batches(folder, batches, 0)


def replace_every(interval_ms, count, *settings):
    """The group records after `count` replacements of the instance id `b`; `a` stays."""
    fields = settings or [{}]
    return [
        (number * interval_ms, (member("a", 0), member("b", number, **fields[number % len(fields)])))
        for number in range(count + 1)
    ]


def test_two_processes_with_one_instance_id_are_found_with_what_differs(tmp_path):
    """Kafka keeps the client id and the host of a replaced member: GroupMetadata.replaceStaticMember (3.9)."""
    path = write_log(tmp_path, replace_every(28 * SECOND, 8, POD, COPY))
    (finding,) = find_and_check(path, coordinator="classic")
    assert (finding.kind, finding.partition, finding.offset, finding.group) == ("shared_instance_id", 0, 1, "booker")
    assert "Static member b of group booker got a new member id 8 times, from offset 1" in finding.what
    assert "(2023-11-14 22:13:48 UTC) to offset 8 (2023-11-14 22:17:04 UTC)" in finding.what
    assert "Two processes have this instance id" in finding.what
    assert "session timeout 45000 ms, rebalance timeout 300000 ms, rack none (4 times, the first)" in finding.what
    assert "session timeout 60000 ms, rebalance timeout 600000 ms, rack rack-c (4 times, the last)" in finding.what
    assert "group.instance.id=b" in finding.remedy


@pytest.mark.parametrize("version", ["3.9.2", "4.0.2", "4.3.1"])
def test_kafkas_own_fenced_members_are_found(version):
    """The captured run b-static-fenced: two clients with the same group.instance.id fence each other."""
    path = captured("runs") / "runs" / f"{version}-main" / "log"
    (finding,) = [finding for finding in find(path, **rules_of(version)) if finding.group == FENCED_GROUP]
    assert finding.kind == "shared_instance_id"
    assert "or one process starts again and again" in finding.what


@pytest.mark.parametrize(
    ("name", "generations", "count"),
    [
        ("four replacements", replace_every(28 * SECOND, 4, POD, COPY), 0),
        ("five replacements", replace_every(28 * SECOND, 5, POD, COPY), 1),
        ("two processes that are slow, but alternate", replace_every(12 * MINUTE, 5, POD, COPY), 1),
        ("one process that is slow", replace_every(12 * MINUTE, 9), 0),
        ("two processes that are even slower", replace_every(16 * MINUTE, 9, POD, COPY), 0),
        ("a restart each day", replace_every(24 * 60 * MINUTE, 9, POD, COPY), 0),
        ("members that leave in between", [(0, ()) if n % 2 else (0, (member("b", n),)) for n in range(20)], 0),
        (
            "a rolling restart of 20 members, twice",
            [
                (
                    step * SECOND,
                    tuple(member(f"i{n}", (step - n + 19) // 20) for n in range(20)),
                )
                for step in range(41)
            ],
            0,
        ),
    ],
)
def test_only_many_replacements_of_one_instance_id_are_found(name, generations, count, tmp_path):
    path = write_log(tmp_path, generations)
    assert len(find(path, coordinator="classic")) == count


def test_new_settings_of_one_process_do_not_prove_two_processes(tmp_path):
    """One process starts again and again, and somebody changes its configuration once."""
    generations = replace_every(20 * SECOND, 4, POD) + [
        (100 * SECOND + 20 * SECOND * number, (member("a", 0), member("b", 10 + number, **COPY))) for number in range(4)
    ]
    (finding,) = find(write_log(tmp_path, generations), coordinator="classic")
    assert "Two processes have" not in finding.what
    assert "The records have different settings" in finding.what
    assert finding.what.index("rack-c (4 times, the first)") < finding.what.index("rack none (4 times, the last)")


def test_a_second_series_an_hour_later_is_a_finding_of_its_own(tmp_path):
    later = [(time + 120 * MINUTE, members) for time, members in replace_every(10 * SECOND, 6, COPY)]
    path = write_log(tmp_path, replace_every(10 * SECOND, 5, POD) + later)
    first, second = find(path, coordinator="classic")
    assert "5 times, from offset 1 " in first.what
    assert second.offset > 5
