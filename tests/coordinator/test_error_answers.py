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

from kafkagroups.coordinator import Errors, GroupCoordinator, ResponseFuture
from tests.captured import captured
from tests.command import main
from tests.coordinator.situations import NEWEST, OLD_SITUATIONS, SITUATIONS, make_broker
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
    elif hasattr(result, "__struct_fields__"):
        yield from errors_in([getattr(result, name) for name in result.__struct_fields__])


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


def replay(cases, tmp_path_factory):
    """Play recorded conversations."""
    for case in sorted(cases):
        out = tmp_path_factory.mktemp("conversation") / "log"
        with redirect_stdout(io.StringIO()) as printed:
            assert main(["replay", str(case / "conversation.jsonl"), "--out", str(out)]) == 0
        assert printed.getvalue()


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """What the classic coordinator answered in the golden scripts, the conversations and the situations."""
    with watching() as pairs:
        for script in sorted(SCRIPTS.glob("*.txt")):
            play(script.read_text(encoding="utf-8"), tmp_path_factory.mktemp("golden"))
        replay((captured("conversations") / "conversations").glob("[1-3]*"), tmp_path_factory)
        for situation in (*SITUATIONS, *OLD_SITUATIONS):
            situation(lambda **options: make_broker(tmp_path_factory.mktemp("broker"), **options))
    return pairs


@pytest.fixture(scope="module")
def newly_answered(tmp_path_factory):
    """What the new coordinator answered in the conversations and the situations."""
    with watching() as pairs:
        replay((captured("conversations") / "conversations").glob(f"{NEWEST}-*"), tmp_path_factory)
        replay((captured("new_conversations") / "conversations_new").glob(f"{NEWEST}-*"), tmp_path_factory)
        for situation in SITUATIONS:
            situation(lambda **options: make_broker(tmp_path_factory.mktemp("broker"), NEWEST, **options))
    return pairs


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
