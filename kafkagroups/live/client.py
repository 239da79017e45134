"""A cluster asked through kafka-python (extra `live`), below that client's consumer API: connect, find leaders, ask.

Every question goes to the leader of its partitions, and again after some patience where the leader moves or its broker
is away. What a user can mend is a UsageError of one line: no client, no broker, no topic, no permission.
Source: MetadataRequest.json (4.3.1); kafka.net.manager, kafka.net.connection (kafka-python 3.0).

Simpler than a client: one request at a time, no brokers before 0.11 (they would create the topic when asked for it).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from kafkagroups.errors import UsageError

TOPIC = "__consumer_offsets"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI")
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
INSTALL = "pull needs the Python package kafka-python: `pip install '.[live]'` in the project's folder brings it"
CONNECT_SECONDS = 10.0
LARGEST_ANSWER = 512 * 1024 * 1024
"""A batch comes whole, however large it is."""
WAITS = (0.1, 0.5, 1.0, 2.0, 4.0)
"""Seconds before a request is tried again, while a partition's leader moves or its broker is away."""


@dataclass(frozen=True, slots=True)
class Security:
    """How to connect, in Kafka's words. `cafile`, `certfile` and `keyfile` are PEM files; `user` and `password` are
    SASL's, `service` is Kerberos's (GSSAPI)."""

    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    service: str = "kafka"
    cafile: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True


@dataclass
class Cluster:
    """The client, the brokers to begin with, and which node leads which partition (-1: none)."""

    net: Any
    manager: Any
    bootstrap: list[Any]
    leaders: dict[int, int] = field(default_factory=dict)


@contextmanager
def connected(bootstrap: str, security: Security) -> Iterator[Cluster]:
    try:
        from kafka.net.manager import KafkaConnectionManager
        from kafka.net.selector import NetworkSelector
    except ImportError:
        raise UsageError(INSTALL) from None
    config = _config(bootstrap, security)
    net = NetworkSelector(**config)
    manager = KafkaConnectionManager(net, **config)
    try:
        yield Cluster(net, manager, manager.cluster.bootstrap_brokers())
    finally:
        manager.close()
        net.close()


def _config(bootstrap: str, security: Security) -> dict[str, Any]:
    """The client's own settings. UsageError for what it could not use."""
    servers = bootstrap.split(",")
    for server in servers:
        host, _, port = server.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise UsageError(f"HOST:PORT of a broker was expected, not {server!r}")
    sasl = security.protocol.startswith("SASL")
    if security.protocol not in PROTOCOLS or (sasl and security.mechanism not in MECHANISMS):
        known = f"{', '.join(PROTOCOLS)}, and SASL needs a mechanism: {', '.join(MECHANISMS)}"
        raise UsageError(f"the security protocol is one of {known}")
    if not sasl and (security.mechanism or security.user):
        raise UsageError(f"a SASL mechanism and a user need SASL_SSL or SASL_PLAINTEXT, not {security.protocol}")
    if sasl and security.mechanism != "GSSAPI" and (security.user is None or security.password is None):
        raise UsageError(f"{security.mechanism} needs a user and a password")
    if not security.protocol.endswith("SSL") and (security.cafile or security.certfile or security.keyfile):
        raise UsageError(f"certificates need SSL or SASL_SSL, not {security.protocol}")
    return {
        "bootstrap_servers": servers,
        "client_id": "kafkagroups",
        "receive_message_max_bytes": LARGEST_ANSWER,
        "security_protocol": security.protocol,
        "ssl_context": _tls(security) if security.protocol.endswith("SSL") else None,
        "sasl_mechanism": security.mechanism,
        "sasl_plain_username": security.user,
        "sasl_plain_password": security.password,
        "sasl_kerberos_service_name": security.service,
    }


def _tls(security: Security) -> ssl.SSLContext:
    file = security.cafile
    try:
        context = ssl.create_default_context(cafile=file)
        context.check_hostname = security.check_hostname
        if file := security.certfile or security.keyfile:
            context.load_cert_chain(file, security.keyfile, security.key_password or "")
    except OSError as error:  # ssl.SSLError is one
        raise UsageError(f"{file}: no PEM file that can be used: {error.strerror or error}") from None
    return context


def _ask(cluster: Cluster, node: int | str, request: Any) -> Any:
    """A node's answer. KafkaError when none comes: NodeNotReadyError soon after another, else KafkaConnectionError."""
    from kafka.errors import KafkaConnectionError, NodeNotReadyError

    connection: Any = None

    async def send() -> Any:
        nonlocal connection
        connection = cluster.manager.get_connection(
            node, timeout_ms=CONNECT_SECONDS * 1000, refresh_metadata_on_err=False
        )
        await connection
        return await connection.send_request(request)

    try:
        answer = cluster.net.run(send)
    except NodeNotReadyError:
        raise
    except Exception as error:  # whatever it is: also what the client did not catch, such as a library that it lacks
        broker = cluster.manager.cluster.broker_metadata(node)
        where = f"{broker.host}:{broker.port}" if broker else f"broker {node}"
        reason = _hint(cluster, connection) if _is_dropped(connection) else words(error)
        raise KafkaConnectionError(f"{where}: {reason}") from None
    if answer.throttle_time_ms:
        cluster.net.run(cluster.net.sleep, answer.throttle_time_ms / 1000)
    return answer


def _is_dropped(connection: Any) -> bool:
    """Whether the broker hung up while a connection was being made: that is how it refuses; the client often loses
    the words that came before."""
    failure = connection.init_future.exception if connection is not None else None
    return failure is not None and "disconnected" in str(failure)


def _hint(cluster: Cluster, connection: Any) -> str:
    if connection.broker_version_data is not None and connection.sasl_enabled:
        return "the broker hung up at the login: is it the right SASL mechanism, user and password?"
    return f"the broker hung up: does it speak {cluster.manager.config['security_protocol']} there?"


def refresh(cluster: Cluster) -> None:
    """Learns the brokers and leaders, from the first broker that answers. UsageError: none, no topic, not allowed."""
    from kafka.errors import KafkaError, for_code
    from kafka.protocol.metadata import MetadataRequest

    topic = MetadataRequest.MetadataRequestTopic(name=TOPIC)
    failures = []
    for broker in [*cluster.manager.cluster.brokers(), *cluster.bootstrap]:
        # asked for without allow_auto_topic_creation (version 4), a broker would create the topic
        request = MetadataRequest(topics=[topic], allow_auto_topic_creation=False, min_version=4, max_version=9)
        try:
            answer = _ask(cluster, broker.node_id, request)
        except KafkaError as error:
            failures.append(words(error))
            continue
        cluster.manager.cluster.update_metadata(answer)
        (told,) = answer.topics
        refusal = for_code(told.error_code)()
        if told.error_code == 3:
            raise UsageError(f"the cluster has no topic {TOPIC}: no group has ever committed there")
        if told.error_code:
            raise UsageError(f"{TOPIC}: {words(refusal)}")
        cluster.leaders = {partition.partition_index: partition.leader_id for partition in told.partitions}
        return
    raise UsageError(f"no broker answers: {'; '.join(failures)}")


def ask_leaders(
    cluster: Cluster, numbers: list[int], request: Callable[[list[int]], Any]
) -> tuple[dict[int, Any], dict[int, Any]]:
    """By partition, what its leader answers to `request` of those it leads; and the errors of the others, after some
    patience with what passes. UsageError: not allowed."""
    from kafka.errors import AuthorizationError, KafkaError, LeaderNotAvailableError, NodeNotReadyError, for_code

    answers: dict[int, Any] = {}
    errors: dict[int, Any] = {}
    left = set(numbers)
    for wait in (*WAITS, None):
        by_leader: dict[int, list[int]] = {}
        for number in sorted(left):
            by_leader.setdefault(cluster.leaders.get(number, -1), []).append(number)
        for leader, mine in by_leader.items():
            try:
                if leader < 0:
                    raise LeaderNotAvailableError()
                answer = _ask(cluster, leader, request(mine))
            except KafkaError as error:
                if not isinstance(error, NodeNotReadyError):  # that one only says: not again so soon
                    errors |= dict.fromkeys(mine, error)
                continue
            for topic in getattr(answer, "responses", None) or answer.topics:
                for partition in topic.partitions:
                    refusal = for_code(partition.error_code)()
                    if isinstance(refusal, AuthorizationError):
                        raise UsageError(f"{TOPIC}: {words(refusal)}")
                    if partition.error_code:
                        errors[partition.partition_index] = refusal
                    else:
                        answers[partition.partition_index] = partition
        left = {number for number in left - set(answers) if number not in errors or errors[number].retriable}
        if not left or wait is None:
            break
        cluster.net.run(cluster.net.sleep, wait)
        with suppress(UsageError):
            refresh(cluster)
    return answers, {number: errors.get(number, LeaderNotAvailableError()) for number in set(numbers) - set(answers)}


def words(error: Any) -> str:
    """A client's error in one line: Kafka's name of it and what was said, or only that where no connection is."""
    name = getattr(error, "message", None) or type(error).__name__
    said = " ".join(", ".join(str(part) for part in error.args if part).split())
    return f"{name}: {said}" if said and name != "KafkaConnectionError" else said or str(name)
