"""Situations in which a coordinator answers errors: what the clients send, and what the log and the cluster do.

Each is a function of `make`, which starts a broker.
"""

from kafkagroups.coordinator import Errors, OffsetCommit, TopicPartition
from tests.coordinator.conftest import ORDERS, TOPICS, Broker, NewBroker, subscription
from tests.coordinator.test_classic_rules import GROUP_ERRORS

NEWEST = "4.3.1"


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
