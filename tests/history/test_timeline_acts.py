"""`timeline` against what was done to real brokers: the shop's acts, and the actions of the runs on modern brokers.

An act says which records it wrote. So each event belongs to one act, and the rules below say which events an act must
have and which it can have.
"""

import json
import re
from itertools import chain

import pytest

import kafkagroups as kg
from tests.captured import captured
from tests.cases import case
from tests.groups.test_load_runs import DATA

RUNS = captured("runs") / "runs"
MEMBER_EVENTS = {"generation", "empty", "epoch"}
EVENTS_OF = {
    "join": MEMBER_EVENTS,
    "leave": MEMBER_EVENTS,
    "commit": {"commit", "rewind"},
    "pending": {"transaction_open"},
    "end": {"transaction_committed", "transaction_aborted", "rewind"},
    "delete group": {"deleted", "offset_deleted", "epoch"},  # a share group first deletes its state
    "delete offsets": {"offset_deleted", "deleted"},
    "delete topic": {"offset_deleted", "deleted"},
    "sweep": {"expired", "deleted"},
}
"""The events that an act of each kind can have."""


def timelines(path, version, groups):
    """Return the events of each group as JSON, with `all`."""
    coordinator = "new" if version.startswith("4") else "classic"
    return {
        group: kg.timeline(path, group, coordinator=coordinator, kafka=version, all=True).to_json() for group in groups
    }


def events_in(events, partition, first, last):
    return [event for event in events if event["partition"] == partition and first <= event["offset"] <= last]


# The shop: data/harbour/<version>/acts.json


GROUP_OF_STEP = {
    "billing": "billing",
    "first commit": "billing",
    "the same commit again": "billing",
    "lunch break": "billing",
    "van": "shipping",
    "dashboard": "dashboard",
    "only one screen": "dashboard",
    "transaction": "fraud-check",
    "an operator in between": "fraud-check",
    "mailer": "mailer",
    "promo": "promo",
    "spring is over": "promo",
    "the next sweeps": "promo",
    "a commit that": "stock-audit",
    "the short ones expire": "stock-audit",
    "café": "café-☕",
    "loyalty": "loyalty",
    "taster-1": "tasters",
    "bar-stats": "bar-stats",
}
KIND_OF_STEP = (
    ("mailer is deleted", "delete group"),
    ("spring is over", "delete topic"),
    ("the next sweeps", "sweep"),
    ("the short ones expire", "sweep"),
    (r"transaction \d, offsets.*", "pending"),
    (r"transaction \d, (commit|abort)", "end"),
    ("lunch break|.* leaves|.* goes off", "leave"),
    (".* joins|.* is back|bar-stats starts", "join"),
    (".*commit.*|dashboard at .*|only one screen|an operator.*|a commit.*|billing-1 alone again", "commit"),
)


def read_acts(version):
    """Yield each act that wrote records: its kind, its group, the act, and the place of the records."""
    for act in json.loads((DATA / version / "acts.json").read_text()):
        for wrote in act["wrote"]:
            kinds = [kind for pattern, kind in KIND_OF_STEP if re.fullmatch(pattern, act["step"])]
            groups = [group for start, group in GROUP_OF_STEP.items() if act["step"].startswith(start)]
            assert kinds and groups, act["step"]
            yield kinds[0], groups[0], act, (wrote["partition"], wrote["first"], wrote["last"])


@pytest.mark.parametrize("version", ["1.0.1", "3.9.2", "4.3.1"])
def test_each_act_of_the_shop_has_its_events(version):
    """Joins, generations, commits, transactions, deletions and expirations, with the numbers that the acts name."""
    acts = list(read_acts(version))
    stories = timelines(DATA / version, version, {group for _, group, _, _ in acts})
    for kind, group, act, place in acts:
        with case(act["step"]):
            events = events_in(stories[group], *place)
            allowed = EVENTS_OF[kind] | ({"commit"} if act["step"] == "bar-stats starts" else set())
            assert {event["event"] for event in events} <= allowed
            check_act(kind, act, events, version)
    spans = [(group, place) for _, group, _, place in acts]
    for group, events in stories.items():
        for event in events:
            assert any(group == name and event in events_in(events, *place) for name, place in spans), event


def check_act(kind, act, events, version):
    names = [event["event"] for event in events]
    if kind == "commit":
        count = sum(wrote["last"] - wrote["first"] + 1 for wrote in act["wrote"])
        assert names.count("commit") == count
        answer = act["answer"]
        committed = answer.get("committed") if isinstance(answer, dict) else None
        if committed:
            assert {event["topic_partition"]: event["to"] for event in events} == {
                key: value[0] for key, value in committed.items()
            }
    elif kind == "join" and act["act"] != 9:
        check_join(act, [event for event in events if event["generation"]])
    elif kind == "join":
        assert any(event["members_joined"] for event in events)
    elif kind == "leave":
        (event,) = events
        is_last = act["step"] in ("lunch break", "mailer leaves", "promo leaves")
        assert event["members_left"] and event["event"] == ("empty" if is_last else "generation")
    elif kind == "end":
        committed = act["step"].endswith("commit")
        assert set(names) == {"transaction_committed" if committed else "transaction_aborted"} and len(names) == 2
        assert {event["topic_partition"] for event in events} == {"payments-0", "payments-1"}
        assert {event["producer_id"] for event in events} != {None}
    elif kind == "pending":
        expected = {"payments-1", "orders-0"} if "left open" in act["step"] else set()
        assert {event["topic_partition"] for event in events} == expected
    elif kind == "delete group":
        assert names == ["deleted"]
    elif kind == "delete topic":
        assert names == (["offset_deleted"] if version == "4.3.1" else ["deleted"])
        assert [event["topic_partition"] for event in events if event["event"] == "offset_deleted"] in (
            [],
            ["promo-spring-0"],
        )
    elif act["step"] == "the short ones expire":
        assert sorted((e["event"], e["topic_partition"], e["from"]) for e in events) == [
            ("expired", "orders-0", 1),
            ("expired", "stock-0", 33),
        ]
    else:
        assert names == ["deleted"]


def check_join(act, events):
    """The answer of a join has the generation and the ids of the members."""
    (event,) = events
    answers = act["answer"] if isinstance(act["answer"], list) else [act["answer"]]
    assert event["event"] == "generation" and event["members_joined"]
    if "generation" in answers[0]:
        assert event["generation"] == answers[0]["generation"]
        ids = {answer["member_id"] for answer in answers}
        assert set(event["members_joined"]) <= ids and event["leader"] in ids


def test_the_shop_was_set_back_by_hand():
    """The operator's commit stays, although the transaction's marker comes later (acts 4, lesson 08)."""
    for version in ("1.0.1", "3.9.2", "4.3.1"):
        events = timelines(DATA / version, version, ["fraud-check"])["fraud-check"]
        kept = next(event for event in events if event["event"] == "transaction_committed" and "stays" in event["what"])
        assert (kept["topic_partition"], kept["from"], kept["to"]) == ("payments-0", 25, 25)


# The runs on modern brokers: actions.jsonl


OPERATION = re.compile(r'(?:^|: )(\{"op": .*)$', re.S)
JOIN = re.compile(r"(?:id=(?P<id>\S+) )?group=(?P<group>.*?) topics=")


class Lab:
    """The clients of a run: the group of each member, and the offsets in the transaction of each producer."""

    def __init__(self):
        self.group_of_member = {}
        self.clients_without_membership = set()
        self.transactions = {}
        self.last_group = None

    def read(self, action):
        """Return the kind of an action, its groups (None: any group), and the offsets that it names."""
        text = action["action"]
        if text.startswith("raw ") or ": raw " in text:
            return self.read_raw(text, action.get("result"))
        found = OPERATION.search(text)
        if found is None:
            return self.read_text(text)
        try:
            operation = json.loads(found[1])
        except ValueError:  # The text of the action was cut.
            return None, None, {}
        return self.read_operation(operation)

    def read_raw(self, text, response):
        body = re.search(r"raw (\w+) v\d+ (\{.*\})$", text, re.S)
        if body is None or body[1] != "OffsetCommit":
            return None, None, {}
        request = json.loads(body[2])
        accepted = {
            (topic["name"], partition["partitionIndex"])
            for topic in response["topics"]
            for partition in topic["partitions"]
            if partition["errorCode"] == 0
        }
        offsets = {
            f"{topic['name']}-{partition['partitionIndex']}": partition["committedOffset"]
            for topic in request["topics"]
            for partition in topic["partitions"]
            if (topic["name"], partition["partitionIndex"]) in accepted
        }
        return "commit", {request["groupId"]}, offsets

    def read_text(self, text):
        join = JOIN.search(text)
        if join:
            self.last_group = join["group"]
            if join["id"]:
                self.group_of_member[join["id"]] = join["group"]
            if "'assign'" in text:  # A client without membership writes commits, but no group record.
                self.clients_without_membership.add(join["id"])
                return None, None, {}
            return "join", {join["group"]}, {}
        if text.startswith(("librdkafka commits", "kafka-python commits")):
            return "commit", {self.last_group}, {}
        if text.startswith("kafka-python leaves"):
            return "leave", {self.last_group}, {}
        if re.fullmatch(r"\(\+\d+ s\)", text):
            return "sweep", None, {}
        return None, None, {}

    def read_operation(self, operation):
        name = operation["op"]
        offsets = {
            key: value["offset"] if isinstance(value, dict) else value
            for key, value in operation.get("offsets", {}).items()
        }
        member_group = self.group_of_member.get(operation.get("id"))
        if name in ("commit", "alter"):
            return "commit", {operation.get("group", member_group)}, offsets
        if name == "close" and operation["id"] not in self.clients_without_membership:
            return "leave", {member_group}, {}
        if name == "delgroups":
            return "delete group", set(operation["groups"]), {}
        if name == "deloffsets":
            return "delete offsets", {operation["group"]}, dict.fromkeys(operation["partitions"])
        if name == "deletetopics":
            return "delete topic", None, {}
        if name == "txnoffsets":
            group = operation.get("group") or self.group_of_member[operation["member"]]
            self.transactions.setdefault(operation["id"], {}).setdefault(group, {}).update(offsets)
            return "pending", {group}, offsets
        if name in ("txncommit", "txnabort"):
            groups = self.transactions.pop(operation["id"], {})
            return name, set(groups), groups
        return None, None, {}


def find_groups(path, version):
    return kg.load(path, "new" if version.startswith("4") else "classic", version).partitions_of


@pytest.mark.slow
@pytest.mark.parametrize("run", sorted(file.parent.name for file in RUNS.glob("*/actions.jsonl")))
def test_each_action_of_a_run_has_its_events(run):
    """What a client or an administrator did to a broker is in the timeline, and no event contradicts it."""
    version = run.partition("-")[0]
    path = RUNS / run / ("before-clean" if "compaction" in run else "log")
    stories = timelines(path, version, find_groups(path, version))
    lab = Lab()
    checked = set()
    for line in (RUNS / run / "actions.jsonl").read_text().splitlines():
        action = json.loads(line)
        kind, groups, named = lab.read(action)
        if kind is None or "error" in action:
            continue
        with case(action["action"][:200]):
            found = {}
            for partition, (first, stop) in action["wrote"].items():
                for group in stories if groups is None else groups & stories.keys():
                    found.setdefault(group, []).extend(events_in(stories[group], int(partition), first, stop - 1))
            if any(found.values()):
                check_action(kind, groups, named, found, {*chain.from_iterable(lab.transactions.values())})
                checked.add(kind)
            elif action["wrote"] and kind != "pending":
                assert kind in ("txncommit", "txnabort"), "no event"
    assert checked >= EXPECTED_KINDS[run.split("-")[1]]
    all_names = {event["event"] for events in stories.values() for event in events}
    assert "gap" not in all_names, "no cleaner ran"
    assert ("expired" in all_names) == run.endswith("expiry"), "only these brokers had a short retention time"


EXPECTED_KINDS = {
    "main": {"join", "leave", "commit", "pending", "txncommit", "txnabort", "delete group", "delete topic"},
    "next": {"join", "leave", "commit", "txncommit", "delete group", "delete offsets"},
    "expiry": {"join", "leave", "commit", "sweep"},
    "mid": {"join", "commit", "txncommit"},
    "codec": {"commit"},
    "wide": {"commit"},
    "compaction": {"join", "leave", "commit", "pending", "txncommit", "txnabort", "delete group", "delete offsets"},
}


def check_action(kind, groups, named, found, open_groups):
    events = [event for group_events in found.values() for event in group_events]
    names = {event["event"] for event in events}
    if kind in ("txncommit", "txnabort"):
        ending = "transaction_committed" if kind == "txncommit" else "transaction_aborted"
        assert names <= {ending, "rewind"}
        for group, offsets in named.items():
            ended = {event["topic_partition"]: event for event in found.get(group, ()) if event["event"] == ending}
            assert set(ended) == set(offsets)
            for key, offset in offsets.items():
                # A newer commit or a deletion can win over the transaction.
                assert ended[key]["to"] == offset or ended[key]["from"] == ended[key]["to"]
        return
    assert names <= EVENTS_OF[kind], names
    if kind == "commit":
        committed = {event["topic_partition"]: event["to"] for event in events if event["event"] == "commit"}
        assert committed and named.items() <= committed.items()
    elif kind == "join":
        joined = [member for event in events for member in event["members_joined"]]
        again = any("again" in event["what"] or "new id" in event["what"] for event in events)
        assert joined or again
    elif kind == "leave":
        assert any(event["members_left"] or "but keeps its partitions" in event["what"] for event in events)
    elif kind == "delete group":
        assert {group for group, group_events in found.items() if group_events} <= groups
        # A classic coordinator has a group with a pending commit again after a load.
        assert "deleted" in names or groups & open_groups
    elif kind == "delete offsets":
        deleted = {event["topic_partition"] for event in events if event["event"] == "offset_deleted"}
        assert deleted == set(named)
    elif kind == "delete topic":
        topics = {event["topic_partition"].rpartition("-")[0] for event in events if event["event"] == "offset_deleted"}
        assert topics == {"gone"}
    elif kind == "pending":
        open_offsets = {event["topic_partition"]: event["to"] for event in events}
        assert open_offsets.items() <= named.items()


@pytest.mark.parametrize("version", ["3.9.2", "4.0.2", "4.3.1"])
def test_an_offset_that_was_set_back_is_a_rewind(version):
    """An administrator overwrote t-1 (11) with 0, and the command-line tool reset t-2 (12) to the earliest offset."""
    events = timelines(RUNS / f"{version}-main" / "log", version, ["c-admin"])["c-admin"]
    rewinds = [event for event in events if event["event"] == "rewind"]
    assert [(event["topic_partition"], event["from"], event["to"]) for event in rewinds] == [
        ("t-1", 11, 0),
        ("t-2", 12, 0),
    ]
    commits = [(event["partition"], event["offset"]) for event in events if event["event"] == "commit"]
    assert {(event["partition"], event["offset"]) for event in rewinds} <= set(commits)


def test_what_expired_on_a_broker_with_a_retention_of_one_minute():
    """The offsets that were gone after a minute expired, and the offset with a retention time of an hour stayed."""
    for version in ("3.9.2", "4.3.1"):
        path = RUNS / f"{version}-expiry" / "log"
        stories = timelines(path, version, ["g-simple", "g-left", "g-live", "g-retention", "g-retention-short"])
        expired = {
            group: {(event["topic_partition"], event["from"]) for event in events if event["event"] == "expired"}
            for group, events in stories.items()
        }
        assert expired == {
            "g-simple": {("t-0", 1), ("t-1", 2)},
            "g-left": {("t-0", 1), ("t-1", 2)},
            "g-live": {("orders-0", 2)},
            "g-retention": set(),
            "g-retention-short": {("t-0", 77), ("t-1", 78)},
        }
        (first, *_) = [event for event in stories["g-retention-short"] if event["event"] == "expired"]
        assert "retention time 8 s" in first["what"], "its record contains the time"
        (unsure,) = [event for event in stories["g-live"] if event["event"] == "expired"]
        assert "or was deleted by a request" in unsure["what"], "the log does not contain the broker's retention time"


def test_what_expired_in_groups_of_the_new_protocol():
    """A broker with a retention time of one minute. A member's pattern of topic names protects the topics it matches.

    The group `live` had a member for `orders`, and `regex` one for the pattern `ord.*`. Both lost their offsets of the
    topic `clicks` while the member was there, and the others after it had left. `short` had its own retention time.
    """
    folder = captured("new_expiry") / "conversations_new" / "4.3.1-consumer-expiry" / "log"
    stories = timelines(folder, "4.3.1", find_groups(folder, "4.3.1"))
    lost = {
        group: [event["topic_partition"] for event in events if event["event"] in ("expired", "offset_deleted")]
        for group, events in stories.items()
    }
    assert lost == {
        "live": ["clicks-0", "orders-0"],
        "regex": ["clicks-1", "orders-0"],
        "static": ["clicks-0", "orders-0"],
        "pending": ["clicks-0", "orders-0"],
        "late": ["orders-0"],
        "early": ["orders-0"],
        "simple": ["orders-0"],
        "short": ["orders-0"],
        "never": [],
    }
    for group, events in stories.items():
        names = [event["event"] for event in events]
        assert "offset_deleted" not in names
        assert ("deleted" in names) == (group != "late"), "an offset of `late` was too young"
