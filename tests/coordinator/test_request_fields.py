"""Requests with values that no client can send, and with the largest and smallest values that a client can send.

A value that no request can contain is refused with UsageError before anything changes. Every other value gets an
answer, and what the coordinator then has in memory is what a load of its log gives.
"""

import dataclasses
import inspect
import logging
import tempfile

import hypothesis.strategies as st
import pytest
from hypothesis import given
from msgspec.structs import replace

import kafkagroups as kg
from kafkagroups.coordinator import (
    Errors,
    GroupCoordinator,
    MemberIdentity,
    OffsetCommit,
    TopicPartition,
)
from tests.coordinator.conftest import ORDERS
from tests.coordinator.world import NotAppended, World, subscription

HALF = "a\ud800b"
"""Text with half of a surrogate pair. It has no UTF-8."""
LONGEST = "é" * 16383 + "x"
"""The longest text of a request: 32767 bytes."""

TEXTS = st.sampled_from(["", "g", "i", "grüß 😀", "\0", "\ufffd", HALF, "\ud83d\ude00", None, b"g"])
TEXTS |= st.integers(32766, 32768).map(lambda size: "é" * (size // 2) + "x" * (size % 2))
EDGES = [0, 40_000, 10**400]
EDGES += [sign * 2**bits + step for sign in (-1, 1) for bits in (15, 31, 63) for step in (-1, 0, 1)]
NUMBERS = st.sampled_from([*EDGES, -1, True, 1.5, None]) | st.integers()
PARTITIONS = st.builds(TopicPartition, TEXTS | st.just("orders"), NUMBERS) | st.just(ORDERS)
COMMITS = st.builds(OffsetCommit, NUMBERS | st.just(5), TEXTS, NUMBERS | st.just(-1), NUMBERS | st.just(-1))
OFFSETS = st.dictionaries(PARTITIONS, COMMITS, max_size=3)
METADATA = st.sampled_from([b"", subscription("orders"), b"\0", "text", None])
PROTOCOLS = st.lists(st.tuples(TEXTS, METADATA), max_size=3)
IDENTITIES = st.lists(TEXTS | st.builds(MemberIdentity, TEXTS, TEXTS), max_size=2)

FIELDS = {
    **dict.fromkeys(("group_id", "member_id", "group_instance_id", "client_id", "client_host"), TEXTS),
    **dict.fromkeys(("protocol_type", "protocol", "transactional_id"), TEXTS),
    **dict.fromkeys(("group_ids", "states", "types"), st.lists(TEXTS, max_size=2)),
    **dict.fromkeys(("generation", "session_timeout_ms", "rebalance_timeout_ms", "retention_ms"), NUMBERS),
    **dict.fromkeys(("producer_id", "producer_epoch", "first_ms", "partition", "epoch"), NUMBERS),
    "protocols": PROTOCOLS,
    "members": IDENTITIES,
    "offsets": OFFSETS,
    "assignments": st.dictionaries(TEXTS, METADATA, max_size=2),
}
"""For each parameter of a request: values that a client can send, and values that no client can send."""
FLAGS = {"by_topic_id", "supports_group_not_found", "require_known_member_id", "supports_skip_assignment", "commits"}
FLAGS |= {"supports_abortable_error", "supports_stale_epoch", "require_stable"}
METHODS = [name for name in vars(GroupCoordinator) if not name.startswith("_")]


@pytest.fixture(autouse=True, scope="module")
def quiet():
    """Disable the coordinator's log messages."""
    logging.getLogger("kafkagroups.coordinator").disabled = True
    yield
    logging.getLogger("kafkagroups.coordinator").disabled = False


HALF_FOUND = "half of a surrogate pair"
"""It would be stored as "?", so a load would give another name."""
REFUSED = [
    (
        "txn_offset_commit",
        ("g", {ORDERS: OffsetCommit(1)}),
        {"transactional_id": "t", "producer_id": 7, "producer_epoch": 40_000},
        "producer_epoch: expected an int16",
    ),
    # Python prints no number of more than 4300 digits, so the message contains its size.
    ("heartbeat", ("g", 10**5000, "m"), {}, r"generation: expected an int32 .* found a number of 16610 bits"),
    ("offset_commit", (HALF, {}), {}, f"group_id: .*{HALF_FOUND}"),
    (
        "offset_commit",
        ("g", {TopicPartition(HALF, 0): OffsetCommit(1)}),
        {},
        rf"offsets\[key 0\].topic: .*{HALF_FOUND}",
    ),
    ("offset_commit", ("g", {ORDERS: OffsetCommit(1, HALF)}), {}, rf"offsets\[orders-0\].metadata: .*{HALF_FOUND}"),
    ("join_group", ("g",), {"protocols": [(HALF, b"")]}, rf"protocols\[0\].name: .*{HALF_FOUND}"),
    ("join_group", ("g",), {"protocols": [("a", b"")], "client_id": HALF}, f"client_id: .*{HALF_FOUND}"),
    ("join_group", ("g",), {"protocols": [("a", b"")], "client_host": HALF}, f"client_host: .*{HALF_FOUND}"),
    ("leave_group", ("g", ["m", MemberIdentity("", HALF)]), {}, rf"members\[1\].group_instance_id: .*{HALF_FOUND}"),
    ("offset_commit", ("g", None), {}, "expected a mapping"),
    ("offset_commit", ("g", [ORDERS]), {}, "expected a mapping"),
    ("describe_groups", (None,), {}, "expected a list"),
    ("describe_groups", ("g",), {}, "expected a list"),
    ("leave_group", ("g", "m"), {}, "expected a list"),
    ("join_group", ("g",), {"protocols": ["range"]}, "expected a pair"),
    ("join_group", ("g",), {"protocols": [("range", "text")]}, "expected bytes"),
    # No broker can count the votes for such a list, and Kafka throws an exception.
    (
        "join_group",
        ("g",),
        {"protocols": [("range", b""), ("range", b"")]},
        r"protocols\[1\].name: expected each protocol once, found 'range' again",
    ),
    ("elect", (-1,), {}, "has the partitions"),
    ("elect", (50,), {}, "has the partitions"),
]
"""The verb, its arguments, and the message."""


@pytest.mark.parametrize(("verb", "arguments", "named", "message"), REFUSED)
def test_what_no_client_can_send_is_refused_and_changes_nothing(kafka, verb, arguments, named, message):
    before = state_of(kafka)
    with pytest.raises(kg.UsageError, match=message):
        getattr(kafka.coordinator, verb)(*arguments, **named)
    assert state_of(kafka) == before


def test_a_client_id_that_is_too_long_for_a_member_id(kafka):
    """A broker appends 37 bytes to the client id, and the member id must be a string of a request, too."""
    longest = "c" * (32767 - 37)
    joined = kafka.coordinator.join_group("g", protocols=[("a", b"")], client_id=longest)
    assert joined.value.error is Errors.MEMBER_ID_REQUIRED
    with pytest.raises(kg.UsageError, match="client_id: expected at most 32730 bytes"):
        kafka.coordinator.join_group("h", protocols=[("a", b"")], client_id=longest + "c")
    assert kafka.listed() == {"g"}


@pytest.mark.parametrize("member_id", ["", HALF, LONGEST + "x", None])
def test_a_supply_of_wrong_member_ids(kafka, member_id):
    """A member id that no broker gives is refused, and the new group is not created."""
    kafka.coordinator.new_member_id = lambda prefix: member_id
    with pytest.raises(kg.UsageError, match="new_member_id"):
        kafka.coordinator.join_group("g", protocols=[("a", b"")])
    assert kafka.listed() == set()


def test_a_marker_with_an_epoch_that_is_no_int16(kafka):
    """The log refuses the header of a batch before it writes anything."""
    with pytest.raises(kg.UsageError, match="producer_epoch: expected an int16"):
        kafka.logs.logs.append_marker(0, 7, 40_000, commits=True, timestamp=0)
    assert kafka.records() == []


@pytest.mark.parametrize("version", ["1.0.1", "2.8.2", "3.9.2"])
def test_a_retention_time_beyond_64_bits(broker, version):
    """Java's sum wraps around, so the offset has expired long ago."""
    kafka = broker(version)
    kafka.commit("g", 1, retention_ms=2**63 - 1)
    (offset,) = kafka.group("g").offsets.committed.values()
    assert offset.expire_timestamp == kafka.clock.now_ms + 2**63 - 1 - 2**64
    kafka.start()
    assert list(kafka.group("g").offsets.committed.values()) == [replace(offset, record_offset=offset.batch_offset)]
    kafka.coordinator.manager.delete_expired()
    assert kafka.fetch("g") == {}


def test_the_generation_after_the_last_one(kafka):
    """Java's int wraps around."""
    kafka.stable("g")
    kafka.group("g").generation = 2**31 - 1
    assert kafka.join("g", kafka.group("g").leader).value.generation == -(2**31)


@pytest.mark.parametrize("method", METHODS)
def test_every_parameter_is_checked(method):
    """Each parameter of a request is declared with its type, except flags."""
    parameters = set(inspect.signature(getattr(GroupCoordinator, method)).parameters) - {"self"} - FLAGS
    held = inspect.getclosurevars(getattr(GroupCoordinator, method)).nonlocals
    held = inspect.getclosurevars(held["build"]).nonlocals if "build" in held else held
    declared = held.get("checks", {})
    assert set(declared) == parameters


@pytest.mark.parametrize("version", ["1.0.1", "2.8.2", "3.9.2"])
@given(data=st.data())
def test_any_request_is_answered_or_refused(version, data):
    """No request ends in another exception than UsageError, and after UsageError nothing has changed."""
    with tempfile.TemporaryDirectory() as folder:
        world = new_world(folder, version)
        clients = Clients(world)
        for _ in range(data.draw(st.integers(1, 8))):
            send(data, world, clients, data.draw(st.sampled_from(METHODS)))


class Clients:
    """What the clients of one group know: the newest member id and generation."""

    def __init__(self, world):
        self.world = world
        self.member_id = ""
        self.generation = -1

    def arguments(self, method):
        """Return valid arguments for a request."""
        member = {"group_id": "g", "generation": self.generation, "member_id": self.member_id}
        offsets = {ORDERS: OffsetCommit(5)}
        return {
            "join_group": {
                "group_id": "g",
                "member_id": self.member_id,
                "protocols": [("range", subscription("orders"))],
                "require_known_member_id": False,
            },
            "sync_group": {**member, "assignments": {self.member_id: b"mine"}},
            "heartbeat": member,
            "leave_group": {"group_id": "g", "members": [self.member_id]},
            "offset_commit": {**member, "offsets": offsets},
            "offset_commit_to_zookeeper": {"group_id": "g", "offsets": offsets},
            "txn_offset_commit": {
                "group_id": "g",
                "offsets": offsets,
                "transactional_id": "t",
                "producer_id": 7,
                "producer_epoch": 0,
            },
            "transaction_completed": {"producer_id": 7, "partitions": [0], "commits": True},
            "offset_fetch": {"group_id": "g", "partitions": [ORDERS]},
            "offset_fetch_from_zookeeper": {"group_id": "g", "partitions": [ORDERS]},
            "describe_groups": {"group_ids": ["g"]},
            "consumer_group_heartbeat": {"group_id": "g", "member_id": "m", "member_epoch": 0},
            "consumer_group_describe": {"group_ids": ["g"]},
            "list_groups": {"states": (), "types": ()},
            "delete_groups": {"group_ids": ["g"]},
            "offset_delete": {"group_id": "g", "partitions": [ORDERS]},
            "partitions_deleted": {"partitions": [ORDERS]},
            "start_expiration": {"first_ms": 0},
            "find_coordinator": {"group_id": "g"},
            "elect": {"partition": 0, "epoch": 0},
            "resign": {"partition": 0, "epoch": 0},
            "shut_down": {},
        }[method]

    def joined(self, result):
        if result.error is Errors.NONE:
            self.member_id = result.member_id
            self.generation = result.generation


def send(data, world, clients, method):
    """Send one request with at most two odd arguments, and return the answer.

    If the request is refused, check that nothing has changed, and return None.
    """
    arguments = clients.arguments(method)
    parameters = set(inspect.signature(getattr(GroupCoordinator, method)).parameters) & FIELDS.keys()
    odd = data.draw(st.lists(st.sampled_from(sorted(parameters)), max_size=2)) if parameters else []
    for name in odd:
        arguments[name] = data.draw(FIELDS[name])
    if "partitions" in arguments and data.draw(st.booleans()):
        numbers = method == "transaction_completed"
        arguments["partitions"] = data.draw(st.lists(NUMBERS if numbers else PARTITIONS, max_size=2))
    before = state_of(world)
    try:
        if method == "transaction_completed":
            end_transaction(world, **arguments)
        else:
            answer = getattr(world.coordinator, method)(**arguments)
            if method == "join_group":
                answer.then(clients.joined)
            return answer
    except kg.UsageError as error:
        assert str(error)
        assert state_of(world) == before
    except NotAppended:
        assert world.settings.is_before(3, 8)  # tests/coordinator/test_live_and_loaded.py
    return None


def end_transaction(world, producer_id, partitions, commits):
    """Complete the transaction, and write its marker if the request was not refused."""
    world.coordinator.transaction_completed(producer_id, partitions, commits=commits)
    if 0 in partitions:
        world.logs.logs.append_marker(0, producer_id, 0, commits=commits, timestamp=world.clock.now_ms)


def new_world(folder, version):
    return World(folder, version, {"orders": 3}, group_initial_rebalance_delay_ms=0)


def state_of(world):
    """Return everything that a coordinator has, in a form that can be compared: memory, timers and log."""
    manager = world.coordinator.manager
    timers = sorted((timer.due_ms, timer.number) for timer in world.clock._timers)
    parts = (manager.groups, manager.owned, manager.loading, manager.epochs, manager.open_groups)
    batches = [(batch.position, batch.size, batch.crc) for batch in world.read(0)]
    return freeze((parts, world.coordinator.zookeeper, timers, world.coordinator.validator.is_running, batches))


def freeze(value):
    """Return a copy of nested objects that does not change with them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, freeze(
            {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        )
    if isinstance(value, dict):
        return {key: freeze(content) for key, content in value.items()}
    if isinstance(value, set | frozenset):
        return frozenset(value)
    if isinstance(value, list | tuple):
        return [freeze(each) for each in value]
    return value
