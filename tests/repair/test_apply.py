"""`apply_rescue` against a scripted broker: what is refused, what is checked again, interruptions, and silence.

tests/broker/test_rescue.py applies a plan to real brokers.
"""

import json
import os
import signal
import time

import pytest

pytest.importorskip("kafka", reason="no kafka-python")

import kafkagroups as kg
from kafkagroups import UsageError
from tests.repair.fake_broker import SILENT, TOPIC
from tests.repair.fake_coordinator import OLD_VERSIONS, FakeCoordinator, FakeGroup

ORDERS = {"orders-0": 5, "orders-1": 10}


def plan_of(**groups):
    """A plan of groups with these offsets. An offset is a number, or a pair with its metadata."""
    fields = {
        name: {
            "to": name,
            "offsets": {
                key: {"offset": value, "leader_epoch": 7}
                if isinstance(value, int)
                else dict(zip(NAMES, value, strict=True))
                for key, value in offsets.items()
            },
        }
        for name, offsets in groups.items()
    }
    head = {"kafkagroups_plan": 1, "coordinator": "classic", "kafka": "3.9.2"}
    return {**head, "groups": fields}


NAMES = ("offset", "metadata")


@pytest.fixture
def write(tmp_path):
    """Write a plan. Return the path of its file."""

    def call(plan):
        file = tmp_path / "plan.json"
        file.write_text(json.dumps(plan))
        return file

    return call


@pytest.fixture
def broker():
    return FakeCoordinator({"orders": [(0, 10), (0, 10)], "payments": [(3, 8)]})


@pytest.fixture
def apply(broker, write):
    """Apply a plan to the broker. Return (now, planned, result, why) by group and topic-partition."""

    def call(plan, **options):
        with broker.running() as address:
            rows = kg.apply_rescue(write(plan), address, max_wait=options.pop("max_wait", 5.0), **options)
        return {
            (row["group"], row["topic_partition"]): (row["now"], row["planned"], row["result"], row["why"])
            for row in (row.to_json() for row in rows)
        }

    return call


def results(rows):
    return {key: row[2] for key, row in rows.items()}


def whys(rows):
    return {row[3] for row in rows.values()}


def test_nothing_is_written_without_permission(broker, apply):
    """Without `writes`, the rows say what would be set, and no commit is sent."""
    broker.groups["g"] = FakeGroup(offsets={("orders", 1): (10, "")})
    assert apply(plan_of(g=ORDERS)) == {
        ("g", "orders-0"): (None, 5, "would_set", None),
        ("g", "orders-1"): (10, 10, "same", None),
    }
    assert broker.commits == []


def test_a_commit_without_membership_and_leader_epoch(broker, apply):
    """Generation -1, no member id, leader epoch -1 although the plan has 7. What is the same is not sent."""
    broker.groups["g"] = FakeGroup(offsets={("orders", 1): (10, "")})
    rows = apply(plan_of(g={**ORDERS, "payments-0": (8, "café ☕")}), writes=True)
    assert results(rows) == {("g", "orders-0"): "set", ("g", "orders-1"): "same", ("g", "payments-0"): "set"}
    (request,) = broker.commits
    assert (request.generation_id_or_member_epoch, request.member_id, request.group_instance_id) == (-1, "", None)
    partitions = [partition for topic in request.topics for partition in topic.partitions]
    assert {partition.committed_leader_epoch for partition in partitions} == {-1}
    assert broker.groups["g"].offsets["payments", 0] == (8, "café ☕")
    assert set(broker.asked) == {
        *("ApiVersions", "Metadata", "ListOffsets", "FindCoordinator"),
        *("DescribeGroups", "OffsetFetch", "OffsetCommit"),
    }
    assert set(results(apply(plan_of(g={**ORDERS, "payments-0": (8, "café ☕")}), writes=True)).values()) == {"same"}
    assert len(broker.commits) == 1


def test_only_the_metadata_differs(broker, apply):
    """The metadata is part of a commit, so it is set too."""
    broker.groups["g"] = FakeGroup(offsets={("orders", 0): (5, "old")})
    rows = apply(plan_of(g={"orders-0": (5, "new")}))
    assert rows == {("g", "orders-0"): (5, 5, "would_set", "only the metadata differs")}


@pytest.mark.parametrize(
    ("state", "group_type"),
    [
        ("Stable", "classic"),
        ("PreparingRebalance", "classic"),
        ("CompletingRebalance", "classic"),
        ("Stable", "consumer"),
        ("Assigning", "consumer"),
        ("Reconciling", "streams"),
        ("NotReady", "streams"),
        ("StateOfAnotherRelease", "consumer"),
    ],
)
def test_a_group_with_members(broker, apply, state, group_type):
    """Every state except Empty and Dead means members. A group of the new protocols is Dead for DescribeGroups."""
    broker.groups["g"] = FakeGroup(state, group_type, {("orders", 0): (3, "")})
    rows = apply(plan_of(g=ORDERS, other={"orders-0": 1}), writes=True)
    why = f"the group has members (it is {state}): stop its consumers, and run the command again"
    assert rows["g", "orders-0"] == (3, 5, "refused", why) and rows["g", "orders-1"][2:] == ("refused", why)
    assert rows["other", "orders-0"][2] == "set"
    assert [request.group_id for request in broker.commits] == ["other"]


@pytest.mark.parametrize("group_type", ["consumer", "streams"])
def test_an_empty_group_of_a_new_protocol(broker, apply, group_type):
    """It takes commits without membership, as a classic group does."""
    broker.groups["g"] = FakeGroup("Empty", group_type)
    assert set(results(apply(plan_of(g=ORDERS), writes=True)).values()) == {"set"}


def test_a_share_group(broker, apply):
    """A share group has no committed offsets."""
    broker.groups["g"] = FakeGroup("Empty", "share")
    rows = apply(plan_of(g=ORDERS), writes=True)
    assert set(results(rows).values()) == {"refused"} and "share group" in rows["g", "orders-0"][3]
    assert broker.commits == []


def change_before(broker, name, times, change):
    """Call `change` before the request `name` is answered for the given time (1: the first time)."""
    seen = []

    def see(request):
        seen.append(request)
        if request == name and seen.count(name) == times:
            change()

    broker.change = see


def join(broker):
    broker.groups.setdefault("g", FakeGroup()).state = "Stable"


def test_a_member_that_joins_after_the_comparison(broker, apply):
    """The state is asked again right before the group is written."""
    change_before(broker, "DescribeGroups", 2, lambda: join(broker))
    rows = apply(plan_of(g=ORDERS), writes=True)
    assert set(results(rows).values()) == {"refused"} and broker.commits == []
    assert whys(rows) == {"the group has members (it is Stable): stop its consumers, and run the command again"}


def test_a_member_that_joins_after_the_last_check(broker, apply):
    """The coordinator itself refuses a commit without membership."""
    change_before(broker, "OffsetCommit", 1, lambda: join(broker))
    rows = apply(plan_of(g=ORDERS), writes=True)
    assert set(results(rows).values()) == {"refused"} and broker.groups["g"].offsets == {}
    assert whys(rows) == {"the group has members: stop its consumers (UNKNOWN_MEMBER_ID)"}


def test_an_offset_that_changes_after_the_comparison(broker, apply):
    """Somebody commits meanwhile: this offset is refused, the others are set."""

    def commit():
        broker.groups["g"] = FakeGroup(offsets={("orders", 0): (7, "")})

    change_before(broker, "OffsetFetch", 2, commit)
    rows = apply(plan_of(g=ORDERS), writes=True)
    why = "the offset was changed from no offset to 7 meanwhile: run the command again"
    assert rows == {("g", "orders-0"): (7, 5, "refused", why), ("g", "orders-1"): (None, 10, "set", None)}


def test_records_that_are_deleted_after_the_comparison(broker, apply):
    """The log start offset is asked again right before the group is written."""

    def delete():
        broker.topics["orders"] = [(6, 10), (0, 10)]

    change_before(broker, "OffsetFetch", 2, delete)
    rows = apply(plan_of(g=ORDERS), writes=True)
    assert rows["g", "orders-0"][2:] == ("refused", "offset 5 is below the log start offset 6 of orders-0")
    assert rows["g", "orders-1"][2] == "set"


RANGE = {"payments-0": 2, "orders-0": 11, "orders-1": 0}
BELOW = "offset 2 is below the log start offset 3 of payments-0"
BEYOND = "offset 11 is beyond the log end offset 10 of orders-0"


@pytest.mark.parametrize(("out_of_range", "result"), [("refuse", "refused"), ("skip", "skipped")])
def test_offsets_out_of_range_are_not_set(broker, apply, out_of_range, result):
    """The log start offset and the log end offset themselves are in range."""
    assert apply(plan_of(g=RANGE), writes=True, out_of_range=out_of_range) == {
        ("g", "payments-0"): (None, 2, result, BELOW),
        ("g", "orders-0"): (None, 11, result, BEYOND),
        ("g", "orders-1"): (None, 0, "set", None),
    }
    assert broker.groups["g"].offsets == {("orders", 1): (0, "")}
    in_range = plan_of(h={"payments-0": 3, "orders-0": 10})
    assert set(results(apply(in_range, writes=True)).values()) == {"set"}


def test_offsets_out_of_range_are_clamped(broker, apply):
    """They become the nearest offset of the log. The second time, they are the same."""
    rows = apply(plan_of(g=RANGE), writes=True, out_of_range="clamp")
    assert rows["g", "payments-0"][2:] == ("set", f"{BELOW}: it becomes 3")
    assert broker.groups["g"].offsets == {("payments", 0): (3, ""), ("orders", 0): (10, ""), ("orders", 1): (0, "")}
    again = apply(plan_of(g=RANGE), writes=True, out_of_range="clamp")
    assert set(results(again).values()) == {"same"}


@pytest.mark.parametrize("out_of_range", ["refuse", "clamp", "skip"])
def test_a_negative_offset_is_out_of_range(broker, apply, out_of_range):
    """A broker stores -1 and -5 of a client (conversation 3.9.2-commits). An answered -1 also means no offset."""
    broker.groups["g"] = FakeGroup(offsets={("orders", 1): (-1, "")})
    rows = apply(plan_of(g={"orders-0": -5, "orders-1": -1}), writes=True, out_of_range=out_of_range)
    result = "skipped" if out_of_range == "skip" else "refused"
    why = "is out of range: consumers treat a negative offset as no offset"
    assert rows["g", "orders-0"] == (None, -5, result, f"offset -5 of orders-0 {why}")
    assert rows["g", "orders-1"] == (None, -1, result, f"offset -1 of orders-1 {why}")
    assert broker.commits == []


def test_a_missing_topic_or_partition(broker, apply):
    """Kafka would keep offsets of a topic that does not exist, and delete them later."""
    rows = apply(plan_of(g={"gone-0": 1, "orders-2": 1, "orders-0": 1}), writes=True)
    assert rows == {
        ("g", "gone-0"): (None, 1, "refused", "the cluster has no topic gone"),
        ("g", "orders-2"): (None, 1, "refused", "the topic orders has no partition 2 in this cluster"),
        ("g", "orders-0"): (None, 1, "set", None),
    }


GROUP_REFUSED = 30
TOPIC_REFUSED = 29


@pytest.mark.parametrize("name", ["FindCoordinator", "DescribeGroups", "OffsetFetch", "OffsetCommit"])
def test_a_group_that_the_user_may_not_use(broker, apply, name):
    """Kafka's name of the error, for each offset of this group. The other group is written."""
    broker.errors[name, "g"] = GROUP_REFUSED
    rows = apply(plan_of(g=ORDERS, h={"orders-0": 1}), writes=True)
    assert {rows["g", key][2:] for key in ORDERS} == {("refused", "GROUP_AUTHORIZATION_FAILED")}
    assert rows["h", "orders-0"][2] == "set" and not broker.groups.get("g", FakeGroup()).offsets


@pytest.mark.parametrize("name", ["Metadata", "ListOffsets", "OffsetFetch"])
def test_a_topic_that_the_user_may_not_describe(broker, apply, name):
    """The offsets of this topic are refused, the others are set."""
    broker.errors[name, "orders"] = TOPIC_REFUSED
    rows = apply(plan_of(g={**ORDERS, "payments-0": 4}), writes=True)
    assert {rows["g", key][2] for key in ORDERS} == {"refused"}
    assert all("TOPIC_AUTHORIZATION_FAILED" in rows["g", key][3] for key in ORDERS)
    assert rows["g", "payments-0"][2] == "set"


def test_a_commit_that_is_refused_in_part(broker, apply):
    """OFFSET_METADATA_TOO_LARGE (12) of one partition: only this offset is refused."""
    broker.errors["OffsetCommit", ("orders", 0)] = 12
    rows = apply(plan_of(g=ORDERS), writes=True)
    assert rows["g", "orders-0"][2:] == ("refused", "OFFSET_METADATA_TOO_LARGE") and rows["g", "orders-1"][2] == "set"


def test_a_pending_commit_in_the_cluster(broker, apply):
    """UNSTABLE_OFFSET_COMMIT (88): the marker of a running transaction could replace the restored offset."""
    broker.errors["OffsetFetch", "orders"] = 88
    rows = apply(plan_of(g=ORDERS), writes=True)
    assert set(results(rows).values()) == {"refused"}
    assert all("a transaction has a pending commit" in why for why in whys(rows))


@pytest.mark.parametrize("code", [14, 15, 16])
@pytest.mark.parametrize("name", ["FindCoordinator", "DescribeGroups", "OffsetFetch", "OffsetCommit"])
def test_a_coordinator_that_moves_or_loads(broker, apply, quick, name, code):
    """Loading, not available, not coordinator: the coordinator is found and asked again."""
    broker.errors[name, "g"] = [code]
    assert set(results(apply(plan_of(g={"orders-0": 5}), writes=True)).values()) == {"set"}


def test_a_coordinator_that_never_loads(broker, apply, quick):
    """After the last attempt, each offset of the group is refused with Kafka's name of the error."""
    broker.errors["DescribeGroups", "g"] = 14
    rows = apply(plan_of(g=ORDERS, h={"orders-0": 1}), writes=True)
    assert {rows["g", key][3] for key in ORDERS} == {"COORDINATOR_LOAD_IN_PROGRESS"}
    assert rows["h", "orders-0"][2] == "set"


def test_no_offsets_topic(broker, apply, quick):
    """FindCoordinator would create the topic. So a comparison does not send it, and `writes` does."""
    del broker.topics[TOPIC]
    assert set(results(apply(plan_of(g=ORDERS))).values()) == {"would_set"}
    assert "FindCoordinator" not in broker.asked and TOPIC not in broker.topics
    assert set(results(apply(plan_of(g=ORDERS), writes=True)).values()) == {"set"}


def test_an_old_broker(broker, apply):
    """Kafka 0.11 knows old versions of the requests: no states in ListGroups, no stable offsets, no leader epochs."""
    broker.versions = OLD_VERSIONS
    broker.groups["h"] = FakeGroup("Stable")
    rows = apply(plan_of(g=ORDERS, h=ORDERS), writes=True)
    assert {rows["g", key][2] for key in ORDERS} == {"set"} and {rows["h", key][2] for key in ORDERS} == {"refused"}
    assert broker.groups["g"].offsets == {("orders", 0): (5, ""), ("orders", 1): (10, "")}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["metadata", "listoffsets", "findcoordinator", "describegroups", "offsetfetch"])
def test_silence(broker, apply, early_reports, name):
    """A broker that never answers: one limit for all groups together, and one line for each offset or one error."""
    setattr(broker, f"answer_{name}", lambda response: SILENT)
    reports = []
    start = time.monotonic()
    plan = plan_of(g=ORDERS, h=ORDERS, i=ORDERS)
    try:
        lines = whys(apply(plan, writes=True, max_wait=1.0, on_wait=reports.append))
    except UsageError as error:
        lines = {str(error)}
    assert time.monotonic() - start < 5 and reports and broker.commits == []
    assert lines and all("the limit of all waits is 1 s (--max-wait)" in line for line in lines)


def test_a_commit_without_an_answer_can_be_repeated(broker, apply):
    """The commit took effect, but its response is lost: the offset is refused, and the second time it is the same."""
    broker.answer_offsetcommit = lambda response: SILENT
    rows = apply(plan_of(g=ORDERS), writes=True, max_wait=0.5)
    assert set(results(rows).values()) == {"refused"}
    del broker.answer_offsetcommit
    assert set(results(apply(plan_of(g=ORDERS), writes=True)).values()) == {"same"}


def test_ctrl_c_between_groups(broker, apply, run):
    """The table has the offsets that were set. The second application ends as one that was not interrupted."""
    plan = plan_of(a=ORDERS, b=ORDERS, c=ORDERS)

    def interrupt(name):
        if name == "OffsetCommit" and broker.commits:
            time.sleep(0.5)  # Until the client waits for the answer.
            os.kill(os.getpid(), signal.SIGINT)
            raise ConnectionError  # The commit has no effect.

    broker.change = interrupt
    code, out, err = run(plan, "--yes")
    assert (code, err) == (130, "kafkagroups: interrupted\n")
    rows = [line.split() for line in out.splitlines()]
    assert ["a", "orders-0", "-", "5", "set"] in rows and ["a", "orders-1", "-", "10", "set"] in rows
    assert not [row for row in rows if row[:1] in (["b"], ["c"])] and set(broker.groups) == {"a"}
    broker.change = lambda name: None
    rows = apply(plan, writes=True)
    assert {group: rows[group, "orders-0"][2] for group in "abc"} == {"a": "same", "b": "set", "c": "set"}
    offsets = {("orders", 0): (5, ""), ("orders", 1): (10, "")}
    assert {name: group.offsets for name, group in broker.groups.items()} == dict.fromkeys("abc", offsets)


def test_a_large_group_needs_several_commits(broker, apply, monkeypatch):
    """At most 1,000 partitions and 256 KB of names and metadata in one commit. A commit must fit into one batch."""
    broker.topics["wide"] = [(0, 10)] * 1100
    rows = apply(plan_of(g={f"wide-{number}": 1 for number in range(1100)}), writes=True)
    assert set(results(rows).values()) == {"set"}
    assert [sum(len(topic.partitions) for topic in request.topics) for request in broker.commits] == [1000, 100]
    broker.commits.clear()
    apply(plan_of(h={f"wide-{number}": (1, "x" * 4096) for number in range(100)}), writes=True)
    assert [sum(len(topic.partitions) for topic in request.topics) for request in broker.commits] == [63, 37]


def forget_partition(response):
    response.topics[0].partitions.pop()
    return response


def other_group(response):
    response.groups[0].group_id = "other"
    return response


def no_groups(response):
    response.groups.clear()
    return response


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("offsetfetch", forget_partition, "the coordinator did not answer for this partition"),
        ("offsetcommit", forget_partition, "the coordinator did not answer for this partition"),
        ("describegroups", other_group, "expected one group in a DescribeGroupsResponse, found 0"),
        ("describegroups", no_groups, "expected one group in a DescribeGroupsResponse, found 0"),
        ("findcoordinator", lambda response: b"\0\0\0\4abcd", ""),
    ],
)
def test_responses_that_no_broker_sends(broker, apply, quick, name, change, message):
    """One line for each offset, and no traceback."""
    setattr(broker, f"answer_{name}", change)
    rows = apply(plan_of(g={"orders-0": 5}), writes=True, max_wait=1.0)
    (row,) = rows.values()
    assert row[2] == "refused" and message in row[3] and "\n" not in row[3]


def test_wrong_usage(write):
    """A parameter that is wrong, a broker that does not exist, and two groups that would become one."""
    with pytest.raises(UsageError, match="out_of_range: expected one of refuse, clamp, skip, found 'cut'"):
        kg.apply_rescue(write(plan_of(g=ORDERS)), "127.0.0.1:9", out_of_range="cut")
    with pytest.raises(UsageError, match="max_wait: expected more than 0 seconds"):
        kg.apply_rescue(write(plan_of(g=ORDERS)), "127.0.0.1:9", max_wait=0)
    with pytest.raises(UsageError, match=r"no broker responds: 127\.0\.0\.1:9: .*ECONNREFUSED"):
        kg.apply_rescue(write(plan_of(g=ORDERS)), "127.0.0.1:9")
    plan = plan_of(g=ORDERS, h=ORDERS)
    plan["groups"]["h"]["to"] = "g"
    with pytest.raises(UsageError, match="'g' and 'h' would both become 'g'"):
        kg.apply_rescue(write(plan), "127.0.0.1:9")


# --- The command


@pytest.fixture
def run(broker, run, write):
    """Run `rescue apply`. Return exit code, stdout and stderr."""

    def call(plan, *options):
        with broker.running() as address:
            return run("rescue", "apply", write(plan), "--bootstrap", address, *options)

    return call


def test_the_exit_code_and_json(broker, run):
    """One line of JSON for each offset, with the fields of the contract. 1: something was refused."""
    code, out, err = run(plan_of(g={"orders-0": 5, "orders-1": 11}), "--json", "--yes")
    assert (code, err) == (1, "")
    assert [json.loads(line) for line in out.splitlines()] == [
        {"group": "g", "topic_partition": "orders-0", "now": None, "planned": 5, "result": "set", "why": None},
        {
            "group": "g",
            "topic_partition": "orders-1",
            "now": None,
            "planned": 11,
            "result": "refused",
            "why": "offset 11 is beyond the log end offset 10 of orders-1",
        },
    ]
    code, out, _ = run(plan_of(g={"orders-0": 5, "orders-1": 11}), "--json", "--yes", "--out-of-range", "clamp")
    last = json.loads(out.splitlines()[-1])
    assert code == 0 and (last["planned"], last["clamped_to"], last["result"]) == (11, 10, "set")


def test_the_text(broker, run):
    """A table, counts, the warning about topics, and that nothing was written."""
    broker.groups["g"] = FakeGroup(offsets={("orders", 1): (10, "")})
    code, out, err = run(plan_of(g=ORDERS))
    rows = [line.split() for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert ["g", "orders-0", "-", "5", "would_set"] in rows and ["g", "orders-1", "10", "10", "same"] in rows
    assert "2 offsets: 1 would_set, 1 same." in out
    assert "Nothing was written. --yes commits the offsets." in out
    assert "Offsets only fit topics whose records kept their offsets" in " ".join(out.split())
    _, out, _ = run(plan_of(g=ORDERS), "--yes")
    assert "Nothing was written" not in out and "1 set, 1 same" in out


def test_a_plan_with_problems_says_so(broker, run):
    """A plan of a damaged log may lack groups."""
    code, _, err = run({**plan_of(g=ORDERS), "made_from": {"problems": ["log: damage\u202e", "more"]}})
    assert code == 0 and err.count("\n") == 1
    assert err.endswith("this plan was made from a log with problems: log: damage\\u202e\n")


def test_a_name_with_two_readings(broker, run):
    """A line on stderr says how it was read, and how the other reading is written. Nothing is refused for it."""
    broker.topics["foo-"] = [(0, 10), (0, 10)]
    code, _, err = run(plan_of(g={"foo--1": 5}), "--yes")
    reading = "foo--1 is read as partition 1 of the topic foo-; the other reading is written foo-(-1)"
    assert (code, err.count("\n")) == (0, 1) and reading in err
    assert broker.groups["g"].offsets == {("foo-", 1): (5, "")}
    code, out, err = run(plan_of(g={"foo-(-1)": 5}))
    assert (code, err) == (1, "") and "the cluster has no topic foo" in " ".join(out.split())


def test_hostile_names_are_escaped(broker, run):
    """Names in a plan, and text in the broker's answers, cannot change a terminal."""
    broker.topics["o\x1b[2Jrders"] = [(0, 1)]
    plan = plan_of(**{"g\u202e": {"o\x1b[2Jrders-0": 1, "gone\x9b-0": 1}})
    _, out, err = run(plan)
    assert not {"\x1b", "\u202e", "\x9b"} & set(out + err) and "\\u202e" in out and "\\x9b" in out


def test_a_malformed_plan_is_one_line(broker, run, tmp_path):
    """Exit code 2, before anything is sent."""
    said = run({"kafkagroups_plan": 1, "groups": {}})
    assert said == (2, "", f"kafkagroups: {tmp_path}/plan.json: Object missing required field `coordinator`\n")
    assert not broker.requests
