"""docs/facts/errors.yaml: each classic error and request of it was answered, and nothing else was.

The answers are those of the coordinator in the golden scripts, in the recorded conversations (both are compared with
brokers elsewhere) and in the situations below. `new_coordinator_errors.json` has the error codes that brokers of 4.3.1
and 4.4.0 answered in the conversations with them.
"""

import functools
import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from kafkagroups.coordinator import Errors, GroupCoordinator, OffsetCommit, ResponseFuture
from tests.captured import captured
from tests.command import main
from tests.coordinator.conftest import ORDERS, TOPICS, Broker, subscription
from tests.golden.script import play
from tools.handbook_pages.facts import read_errors

FACTS = read_errors()
SCRIPTS = Path(__file__).parents[1] / "golden" / "coordinator"
REQUESTS = {
    "join_group": "JoinGroup",
    "sync_group": "SyncGroup",
    "heartbeat": "Heartbeat",
    "leave_group": "LeaveGroup",
    "offset_commit": "OffsetCommit",
    "offset_commit_to_zookeeper": "OffsetCommit",
    "txn_offset_commit": "TxnOffsetCommit",
    "offset_fetch": "OffsetFetch",
    "offset_fetch_from_zookeeper": "OffsetFetch",
    "describe_groups": "DescribeGroups",
    "list_groups": "ListGroups",
    "delete_groups": "DeleteGroups",
    "offset_delete": "OffsetDelete",
    "find_coordinator": "FindCoordinator",
}
"""The method of each request."""
SAME_AS_CLASSIC = {-1, 14, 16, 24}
"""Codes that every request to the new coordinator can have, for the same reasons as in the classic coordinator."""


def errors_in(result):
    """Yield every error of a result, at any depth."""
    if isinstance(result, Errors):
        yield result
    elif isinstance(result, dict):
        yield from errors_in(list(result.values()))
    elif isinstance(result, list | tuple):
        for part in result:
            yield from errors_in(part)
    elif hasattr(result, "__dataclass_fields__"):
        yield from errors_in([getattr(result, name) for name in result.__dataclass_fields__])


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """Every pair (error, request) of the golden scripts, the conversations and the situations."""
    pairs = set()

    def watch(name, request):
        method = getattr(GroupCoordinator, name)

        @functools.wraps(method)
        def call(self, *args, **kwargs):
            result = method(self, *args, **kwargs)

            def note(value):
                pairs.update((error, request) for error in errors_in(value))

            if isinstance(result, ResponseFuture):
                result.then(note)
            else:
                note(result)
            return result

        patch.setattr(GroupCoordinator, name, call)

    with pytest.MonkeyPatch.context() as patch:
        for name, request in REQUESTS.items():
            watch(name, request)
        for script in sorted(SCRIPTS.glob("*.txt")):
            play(script.read_text(encoding="utf-8"), tmp_path_factory.mktemp("golden"))
        for case in sorted((captured("conversations") / "conversations").glob("[1-3]*")):
            out = tmp_path_factory.mktemp("conversation") / "log"
            with redirect_stdout(io.StringIO()):
                assert main(["replay", str(case / "conversation.jsonl"), "--out", str(out)]) == 0
        for situation in SITUATIONS:
            situation(lambda **options: make_broker(tmp_path_factory.mktemp("broker"), **options))
    return pairs


def make_broker(folder, version="3.9.2", **settings):
    return Broker(folder, version, TOPICS, **{"group_initial_rebalance_delay_ms": 0, **settings})


def ask_everything(kafka, group="g"):
    """Send each request about a group once."""
    coordinator = kafka.coordinator
    coordinator.join_group(group, protocols=[("range", subscription("orders"))])
    coordinator.sync_group(group, 1, "m")
    coordinator.heartbeat(group, 1, "m")
    coordinator.leave_group(group, ["m"])
    kafka.commit(group, 1, generation=1, member_id="m")
    kafka.txn_commit(group, 1, generation=1, member_id="m")
    kafka.fetch(group, ORDERS)
    coordinator.describe_groups([group])
    coordinator.list_groups()
    coordinator.delete_groups([group])
    coordinator.offset_delete(group, [ORDERS])
    coordinator.find_coordinator(group)


def nothing_is_allowed(make):
    kafka = make()
    kafka.coordinator.validator.authorize = lambda operation, resource, name: False
    ask_everything(kafka)


def only_groups_are_allowed(make):
    kafka = make()
    kafka.coordinator.validator.authorize = lambda operation, resource, name: resource != "TOPIC"
    kafka.commit("g", 1)
    ask_everything(kafka)
    kafka.stable("h")
    kafka.coordinator.offset_delete("h", [ORDERS])


def empty_group_id(make):
    ask_everything(make(), "")


def shutting_down(make):
    kafka = make()
    kafka.coordinator.shut_down()
    ask_everything(kafka)


def loading(make):
    kafka = make()
    kafka.coordinator.manager.loading.add(0)
    ask_everything(kafka)


def moved_away(make):
    kafka = make()
    kafka.coordinator.resign(0)
    ask_everything(kafka)


def dead_group(make):
    for version in ("2.8.2", "1.0.1"):
        kafka = make(version=version)
        kafka.commit("g", 1)
        kafka.logs.magic = lambda partition: None
        kafka.coordinator.delete_groups(["g"])
        ask_everything(kafka)


def fenced_member(make):
    kafka = make()
    member_id = kafka.stable("g", group_instance_id="i")
    kafka.join("g", group_instance_id="i")
    member = {"generation": 1, "member_id": member_id, "group_instance_id": "i"}
    kafka.commit("g", 1, **member)
    kafka.txn_commit("g", 1, **member)


def appends_that_fail(make):
    for error in Errors:
        if error is Errors.NONE:
            continue
        kafka = make()
        member_id = kafka.join("g", group_instance_id="i").value.member_id
        kafka.stable("h", group_instance_id="i")
        kafka.logs.append_error = error
        if error in APPEND_ERRORS:
            kafka.coordinator.sync_group("g", 1, member_id, {})
            kafka.coordinator.join_group("h", protocols=[("range", subscription("orders"))], group_instance_id="i")
        if error in (*APPEND_ERRORS, Errors.NETWORK_EXCEPTION):
            kafka.commit("simple", 1)
            kafka.txn_commit("simple", 1)


def transactions_that_are_refused(make):
    kafka = make()
    kafka.coordinator.commits.verify = lambda *_: Errors.CONCURRENT_TRANSACTIONS
    kafka.txn_commit("g", 1)


def topic_without_offset_in_zookeeper(make):
    kafka = make(version="1.0.1", zookeeper=True)
    kafka.coordinator.offset_fetch_from_zookeeper("g", [ORDERS])


def group_without_protocol(make):
    kafka = make()
    kafka.stable("g")
    kafka.group("g").protocol = None
    kafka.coordinator.describe_groups(["g"])


def large_group(make):
    kafka = make(group_max_size=1)
    kafka.stable("g")
    kafka.join("g")


def negative_commit(make):
    """A client that is not a member commits for a group with members."""
    kafka = make()
    kafka.stable("g")
    kafka.coordinator.offset_commit("g", {ORDERS: OffsetCommit(1)})


APPEND_ERRORS = (
    Errors.UNKNOWN_TOPIC_OR_PARTITION,
    Errors.NOT_ENOUGH_REPLICAS,
    Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    Errors.NOT_LEADER_OR_FOLLOWER,
    Errors.KAFKA_STORAGE_ERROR,
    Errors.MESSAGE_TOO_LARGE,
    Errors.RECORD_LIST_TOO_LARGE,
    Errors.INVALID_FETCH_SIZE,
    Errors.REQUEST_TIMED_OUT,
)
"""The errors of an append that storeGroup and maybeConvertOffsetCommitError (3.9) translate."""
SITUATIONS = (
    nothing_is_allowed,
    only_groups_are_allowed,
    empty_group_id,
    shutting_down,
    loading,
    moved_away,
    dead_group,
    fenced_member,
    appends_that_fail,
    transactions_that_are_refused,
    topic_without_offset_in_zookeeper,
    group_without_protocol,
    large_group,
    negative_commit,
)


def test_every_error_has_an_entry_in_the_order_of_the_codes():
    """An error that only the new coordinator answers has its entry among the new ones."""
    for entries in (FACTS.classic, FACTS.new):
        codes = [entry.code for entry in entries.values()]
        assert codes == sorted(set(codes))
    for error in Errors:
        assert (FACTS.classic | FACTS.new)[error.name].code == error


def test_the_classic_answers_are_those_of_the_coordinator(answered):
    """Each error and request of the table was answered, and every answer is in the table."""
    assert {(error.name, request) for error, request in answered} == set(list_pairs(FACTS.classic))


def list_pairs(entries):
    """Yield each error and each request that answers it."""
    for name, entry in entries.items():
        for answer in FACTS.list_answers(entry):
            yield from ((name, request) for request in answer.requests)


def test_the_new_answers_are_those_of_brokers():
    """Each code and request of the table was answered, and every answer of a new request is in the table."""
    path = Path(__file__).parent / "new_coordinator_errors.json"
    recorded = {(request, code) for request, codes in json.loads(path.read_text()).items() for code in codes}
    declared = {(request, FACTS.new[name].code) for name, request in list_pairs(FACTS.new)}
    classic = {(request, FACTS.classic[name].code) for name, request in list_pairs(FACTS.classic)}
    assert declared <= recorded
    unexplained = {pair for pair in recorded - declared - classic if pair[1] not in SAME_AS_CLASSIC}
    assert unexplained == set()
