"""The connection to a running cluster: requests are sent to the leaders of partitions.

`pull` and `rescue` use this module. The connection uses the Python package kafka-python (`pip install
'kafkagroups[live]'`), but not its consumer. A request about partitions goes to the leader of these partitions. If the
leader moves or its broker is down, the request is sent again after a wait. An error that a user can fix is a UsageError
of one line: for example, kafka-python is not installed, no broker responds, the topic does not exist, or the user has
no permission.
Source: MetadataRequest.json (4.3.1); kafka.net.manager (kafka-python 3.0); kafka.net.connection (kafka-python 3.0).

Simpler than other clients: this module sends one request at a time, and not requests to several brokers at the same
time. The responses are the same, but a copy of the topic takes longer.

Brokers before 0.11 are not supported, because they create a missing topic when they receive a Metadata request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from kafkagroups.errors import UsageError
from kafkagroups.live.security import Security, build_config
from kafkagroups.live.waits import Waits

TOPIC = "__consumer_offsets"
INSTALL_KAFKA_PYTHON = "this command needs the Python package kafka-python: pip install 'kafkagroups[live]'"
CONNECT_SECONDS = 10.0
"""How long to wait for a connection."""
UNKNOWN_TOPIC_OR_PARTITION = 3
"""Kafka's error code for a topic that does not exist."""
NO_LEADER = -1
"""The broker id that Kafka returns as the leader of a partition without a leader."""
RETRY_DELAYS = (0.1, 0.5, 1.0, 2.0, 4.0)
"""How long to wait before each new attempt, in seconds, if a leader moves or its broker is down."""


@dataclass
class Cluster:
    """A cluster, and the leader of each partition of one topic, usually the offsets topic.

    `net` is kafka-python's event loop, and `manager` is kafka-python's connection manager. `bootstrap` contains the
    brokers that the user named. `leaders` maps each partition to the broker id of its leader, or to NO_LEADER. `waits`
    limits the time of all waits. `topic` is the name of the topic.
    """

    net: Any
    manager: Any
    bootstrap: list[Any]
    leaders: dict[int, int] = field(default_factory=dict)
    waits: Waits = field(default_factory=Waits)
    topic: str = TOPIC


class TopicRefused(UsageError):
    """Raised if the topic does not exist, or if the user has no permission to describe or to read the topic."""


class NoSuchTopic(TopicRefused):
    """Raised if the topic does not exist."""


@contextmanager
def connect(bootstrap: str, security: Security) -> Iterator[Cluster]:
    """Connect to a cluster, and disconnect at the end of the `with` block.

    `bootstrap` is HOST:PORT of a broker, or of several brokers, separated by commas. Raises UsageError if kafka-python
    is not installed or the settings are wrong.
    """
    try:
        from kafka.net.manager import KafkaConnectionManager
        from kafka.net.selector import NetworkSelector
    except ImportError:
        raise UsageError(INSTALL_KAFKA_PYTHON) from None
    config = build_config(bootstrap, security)
    net = NetworkSelector(**config)
    manager = KafkaConnectionManager(net, **config)
    try:
        yield Cluster(net, manager, manager.cluster.bootstrap_brokers())
    finally:
        manager.close()
        net.close()


def send(cluster: Cluster, broker_id: int | str, request: Any) -> Any:
    """Send a request to a broker and return the response. `broker_id` is kafka-python's id of the broker.

    Raises NodeNotReadyError if kafka-python does not connect yet, because an earlier connection to the broker has just
    failed. Raises KafkaConnectionError if there is no response for another reason.
    """
    from kafka.errors import KafkaConnectionError, NodeNotReadyError

    connection: Any = None

    async def connect_and_send() -> Any:
        nonlocal connection
        connection = cluster.manager.get_connection(
            broker_id, timeout_ms=CONNECT_SECONDS * 1000, refresh_metadata_on_err=False
        )
        await connection
        return await connection.send_request(request)

    broker = cluster.manager.cluster.broker_metadata(broker_id)
    address = f"{broker.host}:{broker.port}" if broker else f"broker {broker_id}"
    future = cluster.net.call_soon_with_future(connect_and_send)
    if not cluster.waits.wait_for(cluster.net, future, f"{address} to answer a {request.name}"):
        error = KafkaConnectionError(f"{address}: no answer to a {request.name}")
        if connection is not None:
            connection.close(error)  # Otherwise, a late response could be read as the response to the next request.
        raise error
    if isinstance(future.exception, NodeNotReadyError):
        raise future.exception
    if future.exception is not None:  # It can be any exception, not only a KafkaError.
        is_refused = _is_refused(connection)
        reason = _explain_refusal(cluster, connection) if is_refused else describe_error(future.exception)
        raise KafkaConnectionError(f"{address}: {reason}")
    response = future.value
    if response.throttle_time_ms > 0:
        reason = f"{address} asks this client to wait, because a quota is exceeded"
        cluster.waits.sleep(cluster.net, response.throttle_time_ms / 1000, reason)
    return response


def _is_refused(connection: Any) -> bool:
    """Return whether the broker closed the connection early, as it does after a wrong protocol or password."""
    failure = connection.init_future.exception if connection is not None else None
    return failure is not None and "disconnected" in str(failure)


def _explain_refusal(cluster: Cluster, connection: Any) -> str:
    """Return the probable reason of a refusal. kafka-python often loses the error message that the broker has sent."""
    # The broker sends the versions of its APIs before the login. So if the versions were received, the login failed.
    if connection.broker_version_data is not None and connection.sasl_enabled:
        return "the broker closed the connection at the login: check the SASL mechanism, the user and the password"
    protocol = cluster.manager.config["security_protocol"]
    return f"the broker closed the connection: check that this port uses {protocol}"


def refresh_leaders(cluster: Cluster) -> None:
    """Update the cluster's brokers and leaders. Ask one broker after another, until a broker responds.

    Raises TopicRefused if the topic does not exist or the user has no permission. Raises UsageError if no broker
    responds.
    """
    from kafka.errors import KafkaError, for_code
    from kafka.protocol.metadata import MetadataRequest

    topic = MetadataRequest.MetadataRequestTopic(name=cluster.topic)
    failures = []
    for broker in [*cluster.manager.cluster.brokers(), *cluster.bootstrap]:
        if cluster.waits.are_over:
            break
        # A Metadata request before version 4 would create a missing topic.
        request = MetadataRequest(topics=[topic], allow_auto_topic_creation=False, min_version=4, max_version=9)
        try:
            metadata = _read_metadata(cluster, send(cluster, broker.node_id, request))
        except KafkaError as error:
            failures.append(describe_error(error))
            continue
        if metadata.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            explanation = ": no group has ever committed an offset" if cluster.topic == TOPIC else ""
            raise NoSuchTopic(f"the cluster has no topic {cluster.topic}{explanation}")
        if metadata.error_code:
            raise TopicRefused(f"{cluster.topic}: {describe_error(for_code(metadata.error_code)())}")
        cluster.leaders = {partition.partition_index: partition.leader_id for partition in metadata.partitions}
        return
    reasons = f": {'; '.join(failures)}" if failures else ""
    raise UsageError(f"no broker responds{reasons}{cluster.waits.explain_end()}")


def _read_metadata(cluster: Cluster, response: Any) -> Any:
    """Return the part of a Metadata response about the cluster's topic. Store the response's brokers in kafka-python.

    Raises KafkaConnectionError if a Kafka broker cannot have sent this response.
    """
    from kafka.errors import KafkaConnectionError

    topics = response.topics or []
    if [topic.name for topic in topics] != [cluster.topic]:
        raise KafkaConnectionError(f"expected metadata of the topic {cluster.topic}, found {len(topics)} topics")
    partition_numbers = [partition.partition_index for partition in topics[0].partitions]
    if len(set(partition_numbers)) < len(partition_numbers) or min(partition_numbers, default=0) < 0:
        raise KafkaConnectionError("expected metadata of each partition, found a partition twice or a negative number")
    try:
        cluster.manager.cluster.update_metadata(response)
    except Exception as error:  # kafka-python does not check the response's list of brokers.
        raise KafkaConnectionError(f"the metadata cannot be read: {describe_error(error)}") from None
    return topics[0]


def ask_leaders(
    cluster: Cluster, partitions: list[int], build_request: Callable[[list[int]], Any]
) -> tuple[dict[int, Any], dict[int, Any]]:
    """Send requests about partitions to their leaders. Return two dicts by partition: the responses and the errors.

    `build_request` is called with the partitions of one leader, and returns the request for this leader. If an error
    can be temporary, the request is sent again after a wait. Raises TopicRefused if the user has no permission.
    """
    from kafka.errors import (
        AuthorizationError,
        KafkaConnectionError,
        KafkaError,
        LeaderNotAvailableError,
        NodeNotReadyError,
        for_code,
    )

    responses: dict[int, Any] = {}
    errors: dict[int, Any] = {}
    pending = set(partitions)
    for delay in (*RETRY_DELAYS, None):  # After the last attempt, there is no delay.
        for leader, requested in _group_by_leader(cluster, pending).items():
            if cluster.waits.are_over:
                break
            try:
                if leader == NO_LEADER:
                    raise LeaderNotAvailableError()
                response = send(cluster, leader, build_request(requested))
            except NodeNotReadyError:
                continue  # `errors` keeps an earlier error, which explains why the broker is not ready.
            except KafkaError as error:
                errors |= dict.fromkeys(requested, error)
                continue
            for result in _partition_results(cluster, response):
                if result.partition_index not in requested:
                    continue
                partition_error = for_code(result.error_code)()
                if isinstance(partition_error, AuthorizationError):
                    raise TopicRefused(f"{cluster.topic}: {describe_error(partition_error)}")
                if result.error_code:
                    errors[result.partition_index] = partition_error
                else:
                    responses[result.partition_index] = result
        failed = pending - set(responses)
        pending = {partition for partition in failed if partition not in errors or errors[partition].retriable}
        if not pending or delay is None or cluster.waits.are_over:
            break
        reason = f"partition {min(pending)} has no leader that answers"
        cluster.waits.sleep(cluster.net, delay, reason)
        with suppress(UsageError):  # If this fails, the next attempt uses the earlier leaders.
            refresh_leaders(cluster)
    unanswered = set(partitions) - set(responses)
    default_error = KafkaConnectionError("no time is left") if cluster.waits.are_over else LeaderNotAvailableError()
    return responses, {partition: errors.get(partition, default_error) for partition in unanswered}


def _group_by_leader(cluster: Cluster, partitions: set[int]) -> dict[int, list[int]]:
    """Return the partitions of each leader, by broker id. NO_LEADER has the partitions without a leader."""
    partitions_of_leader: dict[int, list[int]] = {}
    for partition in sorted(partitions):
        leader = cluster.leaders.get(partition, NO_LEADER)
        partitions_of_leader.setdefault(leader, []).append(partition)
    return partitions_of_leader


def _partition_results(cluster: Cluster, response: Any) -> Iterator[Any]:
    """Yield the part of each partition of the cluster's topic in a response."""
    # In a Fetch response, the list of topics is called `responses`. In a ListOffsets response, it is called `topics`.
    is_fetch = response.name == "FetchResponse"
    for topic in (response.responses if is_fetch else response.topics) or ():
        if (topic.topic if is_fetch else topic.name) == cluster.topic:
            yield from topic.partitions


def describe_error(error: Any) -> str:
    """Return an error of kafka-python in one line: its name and its message.

    A connection error has no name in this line, because its message says enough.
    """
    # In kafka-python, the attribute `message` is Kafka's name of the error, and `args` contains the message.
    name = str(getattr(error, "message", None) or type(error).__name__)
    message = " ".join(", ".join(str(part) for part in error.args if part).split())
    if not message:
        return name
    return message if name == "KafkaConnectionError" else f"{name}: {message}"
