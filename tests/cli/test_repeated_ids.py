"""Hosts of members that join, and static members that get new ids.

The logs follow a real group of a 4.3.1 broker: a second process had the instance id of the first one, but the default
timeouts and no rack. The two processes fenced each other.
"""

import json

import kafkagroups as kg
from tests import handmade
from tests.handmade import write_batches

OWN = {"host": "/10.0.0.1", "session_ms": 60_000, "rebalance_ms": 600_000, "rack": "a"}
"""The settings of the process that is meant."""
OTHER = {"host": "/10.0.0.1", "session_ms": 45_000, "rebalance_ms": 300_000, "rack": None}


def write(folder, batches):
    """Write batches, one second apart."""
    return write_batches(folder, [(1000 * second, records) for second, records in enumerate(batches)])


def member(member_id, settings, instance="box"):
    return handmade.classic_member(member_id, instance=instance, client="app", **settings)


def generation(*members):
    return [handmade.generation(1, *members)]


def texts(out):
    """Return the sentences of the output without its first line. A sentence can continue on indented lines."""
    return " ".join(out.split()).partition("__consumer_offsets. ")[2]


def test_a_new_process_of_a_static_member_shows_what_changed(tmp_path, run):
    path = write(tmp_path, [generation(member("m0", OWN)), generation(member("m1", OTHER))])
    _, out, _ = run("timeline", path, "--group", "g")
    changes = "session timeout 60000 ms -> 45000 ms, rebalance timeout 600000 ms -> 300000 ms, rack a -> none"
    assert f"7:1 Generation 1: static member box has a new id; {changes}" in texts(out)
    _, out, _ = run("timeline", path, "--group", "g", "--json")
    event = json.loads(out.splitlines()[-1])
    assert event["replaced_instances"] == ["box"]
    names = {"member_id": "m1", "instance_id": "box", "client_id": "app"}
    settings = {"session_timeout_ms": 45_000, "rebalance_timeout_ms": 300_000, "rack": None}
    assert event["members"] == [{**names, **settings, "host": "/10.0.0.1"}]


def test_two_static_members_with_new_ids_in_one_record(tmp_path):
    """Only the second one has another host."""
    first = generation(member("m0", OWN), member("n0", OWN, "bin"))
    second = generation(member("m1", OWN), member("n1", OWN | {"host": "/10.0.0.9"}, "bin"))
    [_, event] = kg.timeline(write(tmp_path, [first, second]), "g").events
    assert event.what.endswith("box, bin has a new id; bin: host 10.0.0.1 -> 10.0.0.9.")


def test_repeated_new_ids_stand_in_one_line(tmp_path, run):
    """Nine replacements: the first one has its own line. JSON and --all show each."""
    batches = [generation(member(f"m{number}", OTHER if number % 2 else OWN)) for number in range(10)]
    path = write(tmp_path, batches)
    _, out, _ = run("timeline", path, "--group", "g")
    assert "7:2 static member box: 8 more new ids until 2023-11-14 22:13:29 UTC (7:9)" in texts(out)
    assert texts(out).count("has a new id") == 1
    _, out, _ = run("timeline", path, "--group", "g", "--all")
    assert texts(out).count("has a new id") == 9 and "more new ids" not in out
    events = kg.timeline(path, "g").to_json()
    assert [event["replaced_instances"] for event in events] == [[], *[["box"]] * 9]


def test_restarts_of_two_static_members_in_turn(tmp_path, run):
    """A rolling restart, three times: each static member has its own lines. Nothing but the ids changes."""
    batches = []
    ids = ["m0", "n0"]
    for number in range(6):
        ids[number % 2] = f"{ids[number % 2][0]}{number + 1}"
        batches.append(generation(member(ids[0], OWN), member(ids[1], OWN, "bin")))
    start = generation(member("m0", OWN), member("n0", OWN, "bin"))
    _, out, _ = run("timeline", write(tmp_path, [start, *batches]), "--group", "g")
    assert "static member box: 2 more new ids until 2023-11-14 22:13:25 UTC (7:5). --all shows each." in texts(out)
    assert "static member bin: 2 more new ids until 2023-11-14 22:13:26 UTC (7:6). --all shows each." in texts(out)
    assert texts(out).count("has a new id") == texts(out).count("has a new id.") == 2
