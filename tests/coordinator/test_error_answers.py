"""docs/facts/errors.yaml: each error and request of it was answered, and nothing else was.

The answers are those of both coordinators in the golden scripts, in the recorded conversations (both are compared with
brokers elsewhere) and in the situations below. `new_coordinator_errors.json` has the error codes that brokers of 4.3.1
and 4.4.0 answered in the conversations with them, also for share and streams groups, which our coordinator only loads.
"""

import functools
import io
import json
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import pytest

from kafkagroups.coordinator import Errors, GroupCoordinator, OffsetCommit, ResponseFuture, TopicPartition
from kafkagroups.coordinator.conversation import read_conversation
from kafkagroups.coordinator.player import Player
from tests.captured import captured
from tests.command import main
from tests.coordinator.conftest import ORDERS, TOPICS, Broker, NewBroker, subscription
from tests.coordinator.test_storing_rules import GROUP_ERRORS
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
    "consumer_group_heartbeat": "ConsumerGroupHeartbeat",
    "consumer_group_describe": "ConsumerGroupDescribe",
}
"""The method of each request."""
NEWEST = "4.3.1"
FOR_THE_WHOLE_PARTITION = {14, 16}
"""Codes that every request to the new coordinator can have, also those of share and streams groups."""


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


@contextmanager
def watching():
    """Give a set that gets every pair (error, request) that a coordinator answers meanwhile."""
    pairs = set()

    def watch(name, request):
        method = getattr(GroupCoordinator, name)

        @functools.wraps(method)
        def call(self, *args, **kwargs):
            result = method(self, *args, **kwargs)

            def note(value):
                pairs.update((error.name, request) for error in errors_in(value))

            if isinstance(result, ResponseFuture):
                result.then(note)
            else:
                note(result)
            return result

        patch.setattr(GroupCoordinator, name, call)

    with pytest.MonkeyPatch.context() as patch:
        for name, request in REQUESTS.items():
            watch(name, request)
        yield pairs


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """What the classic coordinator answered in the golden scripts, the conversations and the situations."""
    with watching() as pairs:
        for script in sorted(SCRIPTS.glob("*.txt")):
            play(script.read_text(encoding="utf-8"), tmp_path_factory.mktemp("golden"))
        for case in sorted((captured("conversations") / "conversations").glob("[1-3]*")):
            out = tmp_path_factory.mktemp("conversation") / "log"
            with redirect_stdout(io.StringIO()):
                assert main(["replay", str(case / "conversation.jsonl"), "--out", str(out)]) == 0
        for situation in (*SITUATIONS, *OLD_SITUATIONS):
            situation(lambda **options: make_broker(tmp_path_factory.mktemp("broker"), **options))
    return pairs


@pytest.fixture(scope="module")
def newly_answered(tmp_path_factory):
    """What the new coordinator answered in the conversations and the situations."""
    with watching() as pairs:
        cases = [*(captured("conversations") / "conversations").glob(f"{NEWEST}-*")]
        cases += (captured("new_conversations") / "conversations_new").glob(f"{NEWEST}-*")
        for case in sorted(cases):
            out = tmp_path_factory.mktemp("conversation") / "log"
            player = Player(*read_conversation(case / "conversation.jsonl"), out, recorded_log=case / "log")
            assert list(player.play())
            player.logs.close()
        for situation in SITUATIONS:
            situation(lambda **options: make_broker(tmp_path_factory.mktemp("broker"), NEWEST, **options))
    return pairs


def make_broker(folder, version="3.9.2", **settings):
    settings = {"group_initial_rebalance_delay_ms": 0, **settings}
    return NewBroker(folder, version, **settings) if version == NEWEST else Broker(folder, version, TOPICS, **settings)


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
    if kafka.settings.is_at_least(4, 0):
        join(kafka, group)
        coordinator.consumer_group_describe([group])


def join(kafka, group):
    """Send the heartbeat of a new member of a consumer group."""
    return kafka.coordinator.consumer_group_heartbeat(
        group, "m", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"], topic_partitions={}
    )


SITUATIONS = []
OLD_SITUATIONS = []
"""Situations that do not exist in 4.x."""
situation = SITUATIONS.append
old_situation = OLD_SITUATIONS.append


@situation
def nothing_is_allowed(make):
    kafka = make()
    kafka.coordinator.validator.authorize = lambda operation, resource, name: False
    ask_everything(kafka)


@situation
def only_groups_are_allowed(make):
    kafka = make()
    kafka.coordinator.validator.authorize = lambda operation, resource, name: resource != "TOPIC"
    kafka.commit("g", 1)
    ask_everything(kafka)
    kafka.stable("h")
    kafka.coordinator.offset_delete("h", [ORDERS])


@situation
def empty_group_id(make):
    ask_everything(make(), "")


@situation
def shutting_down(make):
    kafka = make()
    kafka.coordinator.shut_down()
    ask_everything(kafka)


@situation
def loading(make):
    kafka = make()
    kafka.coordinator.manager.loading.add(0)
    ask_everything(kafka)


@situation
def moved_away(make):
    kafka = make()
    kafka.coordinator.resign(0)
    ask_everything(kafka)


@old_situation
def dead_group(make):
    for version in ("2.8.2", "1.0.1"):
        kafka = make(version=version)
        kafka.commit("g", 1)
        kafka.logs.magic = lambda partition: None
        kafka.coordinator.delete_groups(["g"])
        ask_everything(kafka)


@situation
def fenced_member(make):
    kafka = make()
    member_id = kafka.stable("g", group_instance_id="i")
    kafka.join("g", group_instance_id="i")
    member = {"generation": 1, "member_id": member_id, "group_instance_id": "i"}
    kafka.commit("g", 1, **member)
    kafka.txn_commit("g", 1, **member)
    kafka.join("g", member_id, group_instance_id="i")
    kafka.coordinator.sync_group("g", 1, member_id, group_instance_id="i")


@situation
def appends_that_fail(make):
    for error in Errors:
        if error is Errors.NONE:
            continue
        kafka = make()
        member_id = kafka.join("g", group_instance_id="i").value.member_id
        kafka.stable("h", group_instance_id="i")
        kafka.logs.append_error = error
        if error in GROUP_ERRORS:
            kafka.coordinator.sync_group("g", 1, member_id, {})
            kafka.coordinator.join_group("h", protocols=[("range", subscription("orders"))], group_instance_id="i")
        if error in (*GROUP_ERRORS, Errors.NETWORK_EXCEPTION):
            kafka.commit("simple", 1)
            kafka.txn_commit("simple", 1)
            if kafka.settings.is_at_least(4, 0):
                join(kafka, "new")
                fail_waiting(kafka, error)


def fail_waiting(kafka, error):
    """Let the append fail for which the answers of 4.x wait."""
    kafka.fail(Errors.NONE)
    member_id = kafka.stable("left")
    kafka.commit("there", 1)
    kafka.hold()
    kafka.commit("there", 2)
    kafka.coordinator.heartbeat("left", 1, member_id)
    kafka.coordinator.offset_fetch("there", require_stable=True)
    kafka.coordinator.delete_groups(["there"])
    kafka.coordinator.leave_group("left", [member_id])
    kafka.coordinator.offset_delete("there", [ORDERS])
    kafka.logs.release(0, error)


@situation
def transactions_that_are_refused(make):
    kafka = make()
    for error in (
        Errors.CONCURRENT_TRANSACTIONS,
        Errors.INVALID_PRODUCER_ID_MAPPING,
        Errors.INVALID_PRODUCER_EPOCH,
        Errors.INVALID_TXN_STATE,
        Errors.TRANSACTION_ABORTABLE,
    ):
        kafka.coordinator.validator.verify = lambda *_, error=error: error
        kafka.txn_commit("g", 1)


@old_situation
def topic_without_offset_in_zookeeper(make):
    kafka = make(version="1.0.1", zookeeper=True)
    kafka.coordinator.offset_fetch_from_zookeeper("g", [ORDERS])


@situation
def group_without_protocol(make):
    kafka = make()
    kafka.stable("g")
    kafka.group("g").protocol = None
    kafka.coordinator.describe_groups(["g"])


@situation
def other_protocol_type(make):
    """OffsetDelete knows the subscriptions of consumers only."""
    kafka = make()
    kafka.stable("g", protocol_type="connect")
    kafka.coordinator.offset_delete("g", [ORDERS])


@situation
def topic_that_does_not_exist(make):
    kafka = make()
    kafka.txn_commit("g", 1, TopicPartition("nope", 0))


@situation
def only_transactional_ids_are_allowed(make):
    kafka = make()
    kafka.coordinator.validator.authorize = lambda operation, resource, name: resource == "TRANSACTIONAL_ID"
    kafka.txn_commit("g", 1)


@situation
def large_group(make):
    kafka = make(group_max_size=1)
    kafka.stable("g")
    kafka.join("g")


@situation
def negative_commit(make):
    """A client that is not a member commits for a group with members."""
    kafka = make()
    kafka.stable("g")
    kafka.coordinator.offset_commit("g", {ORDERS: OffsetCommit(1)})


def test_every_error_has_an_entry_in_the_order_of_the_codes():
    """An error that only the new coordinator answers has its entry among the new ones."""
    for entries in (FACTS.classic, FACTS.new):
        codes = [entry.code for entry in entries.values()]
        assert codes == sorted(set(codes))
    for error in Errors:
        assert (FACTS.classic | FACTS.new)[error.name].code == error


def test_the_classic_answers_are_those_of_the_coordinator(answered):
    """Each error and request of the table was answered, and every answer is in the table."""
    assert answered == set(list_pairs(FACTS.classic))


def list_pairs(entries):
    """Yield each error and each request that answers it."""
    for name, entry in entries.items():
        for answer in FACTS.list_answers(entry):
            yield from ((name, request) for request in answer.requests)


def read_recorded():
    """Return the pairs that brokers of 4.3.1 and 4.4.0 answered with an error."""
    path = Path(__file__).parent / "new_coordinator_errors.json"
    return {(Errors(code).name, request) for request, codes in json.loads(path.read_text()).items() for code in codes}


def list_new_pairs():
    classic_only = {(name, request) for name, answer in FACTS.list_classic_only() for request in answer.requests}
    classic = set(list_pairs(FACTS.classic))
    assert classic_only < classic
    return (classic - classic_only) | set(list_pairs(FACTS.new))


def test_the_new_answers_are_those_of_the_coordinator(newly_answered):
    """As for the classic one. Only recorded are what a broker answers before its coordinator, and other groups."""
    declared = list_new_pairs()
    assert newly_answered <= declared, sorted(newly_answered - declared)
    other_groups = {pair for pair in declared if pair[1].startswith(("Share", "Streams"))}
    unknown_ids = {("UNKNOWN_TOPIC_ID", "OffsetCommit"), ("UNKNOWN_TOPIC_ID", "OffsetFetch")}
    assert declared - newly_answered == other_groups | unknown_ids
    assert other_groups | unknown_ids <= read_recorded()


def test_every_answer_of_a_broker_is_in_the_table():
    unexplained = {
        pair for pair in read_recorded() - list_new_pairs() if Errors[pair[0]] not in FOR_THE_WHOLE_PARTITION
    }
    assert unexplained == set()


def test_only_what_the_classic_coordinator_does_not_answer_is_new():
    """UNSUPPORTED_VERSION of OffsetCommit has another reason in 4.x."""
    assert set(list_pairs(FACTS.classic)) & set(list_pairs(FACTS.new)) <= {
        ("UNSUPPORTED_VERSION", "OffsetCommit"),
        ("UNKNOWN_SERVER_ERROR", "OffsetCommit"),
    }
