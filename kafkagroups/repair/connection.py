"""The connection to a running cluster: its security settings, the limit of its waits, one request and its response.

It uses the package kafka-python (`pip install 'kafkagroups[live]'`), but not its consumer. An error that a user can fix
is a UsageError of one line. Only one request is sent at a time, so a copy of the topic takes longer than with other
clients.
Source: kafka.net.manager and kafka.net.connection (kafka-python 3.0).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkagroups.errors import UsageError

if TYPE_CHECKING:
    from ssl import SSLContext

TOPIC = "__consumer_offsets"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI")
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MAX_RESPONSE_BYTES = 512 * 1024 * 1024
"""The largest response that is accepted.

It must exceed every batch, because a broker sends the first batch as a whole.
"""
MAX_WAIT_SECONDS = 30
"""The default limit of all waits of a command."""
CONNECT_SECONDS = 10.0
RESPONSE_SECONDS = 30.0
"""How long a request can take at most, with its connection and its response."""
MIN_REPORTED_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Security:
    """The security settings of a connection.

    Attributes
    ----------
    protocol, mechanism
        Kafka's settings security.protocol and sasl.mechanism. `mechanism` is None without SASL.
    user, password
        The user and the password for SASL.
    service
        The Kerberos service name of the brokers, for the mechanism GSSAPI.
    cafile
        A PEM file with the brokers' certificate authorities. None means those of the system.
    certfile, keyfile
        PEM files with the client's certificate and private key. If `keyfile` is None, the key is in `certfile`. If both
        are None, the client has no certificate.
    key_password
        The password of the private key; None if it is not encrypted.
    check_hostname
        Whether the host name in a broker's certificate must be the name of the broker.
    """

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


def ignore_report(message: str) -> None: ...


@dataclass
class Waits:
    """The waits of one command, for connections, responses, quotas and new leaders. All together have a limit.

    A response that brings new batches is not a wait, and neither are the first `free_response_seconds` of each
    response. `report` is called with what the command waits for, if a wait is longer than MIN_REPORTED_SECONDS.
    """

    limit_seconds: float = MAX_WAIT_SECONDS
    report: Callable[[str], None] = ignore_report
    free_response_seconds: float = 0
    seconds_left: float = 0
    last_response_seconds: float = 0

    def __post_init__(self) -> None:
        if not self.limit_seconds > 0:
            raise UsageError(f"max_wait: expected more than 0 seconds, found {self.limit_seconds}")
        self.seconds_left = self.limit_seconds

    @property
    def are_over(self) -> bool:
        """Whether the limit is reached."""
        return self.seconds_left <= 0

    def explain_end(self) -> str:
        return f"; the limit of all waits is {self.limit_seconds:g} s (--max-wait)" if self.are_over else ""

    def wait_for(self, net: Any, future: Any, subject: str) -> bool:
        """Let kafka-python's event loop work until a future has a result. Return False if the time ends before."""
        start = time.monotonic()
        seconds = min(RESPONSE_SECONDS, self.seconds_left)
        net.poll(timeout_ms=1000 * min(MIN_REPORTED_SECONDS, seconds), future=future)
        if not future.is_done and seconds > MIN_REPORTED_SECONDS:
            self.report(f"waiting for {subject}")
            net.poll(timeout_ms=1000 * (seconds - MIN_REPORTED_SECONDS), future=future)
        free_seconds = self.free_response_seconds if future.is_done else 0
        self.last_response_seconds = max(0, time.monotonic() - start - free_seconds)
        self.seconds_left -= self.last_response_seconds
        return bool(future.is_done)

    def sleep(self, net: Any, seconds: float, reason: str) -> None:
        """Wait. If less time is left, do not wait at all: the limit is then reached."""
        is_too_long = seconds > self.seconds_left
        if seconds >= MIN_REPORTED_SECONDS:
            lack = f", but only {max(self.seconds_left, 0):.1f} s are left" if is_too_long else ""
            self.report(f"waiting {seconds:.1f} s{lack}: {reason}")
        if not is_too_long:
            net.run(net.sleep, seconds)
        self.seconds_left -= seconds

    def forgive_last_response(self) -> None:
        self.seconds_left += self.last_response_seconds
        self.last_response_seconds = 0


@dataclass
class Cluster:
    """A cluster, and the leaders of the partitions of one topic, usually the offsets topic.

    `net` and `manager` are kafka-python's event loop and connection manager. `bootstrap` has the brokers that the user
    named. `leaders` has the broker id of each partition's leader, or NO_LEADER.
    """

    net: Any
    manager: Any
    bootstrap: list[Any]
    waits: Waits = field(default_factory=Waits)
    leaders: dict[int, int] = field(default_factory=dict)
    topic: str = TOPIC


@contextmanager
def connect(bootstrap: str, security: Security | None = None, waits: Waits | None = None) -> Iterator[Cluster]:
    """Connect to a cluster, and disconnect at the end of the `with` block.

    `bootstrap` is HOST:PORT of one or more brokers, separated by commas. Raises UsageError if kafka-python is not
    installed or a setting is wrong.
    """
    try:
        from kafka.net.manager import KafkaConnectionManager
        from kafka.net.selector import NetworkSelector
    except ImportError:
        raise UsageError(
            "this command needs the Python package kafka-python: pip install 'kafkagroups[live]'"
        ) from None
    config = _build_config(bootstrap, security or Security())
    net = NetworkSelector(**config)
    manager = KafkaConnectionManager(net, **config)
    try:
        yield Cluster(net, manager, manager.cluster.bootstrap_brokers(), waits or Waits())
    finally:
        manager.close()
        net.close()


def _build_config(bootstrap: str, security: Security) -> dict[str, Any]:
    servers = bootstrap.split(",")
    for server in servers:
        host, _, port = server.rpartition(":")
        is_port = re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) < 65536
        if not host or not is_port:
            raise UsageError(f"bootstrap: expected HOST:PORT of a broker, found {server!r}")
    uses_sasl = security.protocol.startswith("SASL")
    uses_tls = security.protocol.endswith("SSL")
    lacks_mechanism = uses_sasl and security.mechanism not in MECHANISMS
    if security.protocol not in PROTOCOLS or lacks_mechanism:
        raise UsageError(
            f"security protocol: expected one of {', '.join(PROTOCOLS)}; "
            f"SASL needs a mechanism: {', '.join(MECHANISMS)}"
        )
    if not uses_sasl and (security.mechanism or security.user):
        raise UsageError(f"a SASL mechanism and a user need SASL_SSL or SASL_PLAINTEXT, not {security.protocol}")
    needs_password = uses_sasl and security.mechanism != "GSSAPI"
    if needs_password and (security.user is None or security.password is None):
        raise UsageError(f"the SASL mechanism {security.mechanism} needs a user and a password")
    if not uses_tls and (security.cafile or security.certfile or security.keyfile):
        raise UsageError(f"certificates need SSL or SASL_SSL, not {security.protocol}")
    return {
        "bootstrap_servers": servers,
        "client_id": "kafkagroups",
        "receive_message_max_bytes": MAX_RESPONSE_BYTES,
        "security_protocol": security.protocol,
        "ssl_context": _load_certificates(security) if uses_tls else None,
        "sasl_mechanism": security.mechanism,
        "sasl_plain_username": security.user,
        "sasl_plain_password": security.password,
        "sasl_kerberos_service_name": security.service,
    }


def _load_certificates(security: Security) -> SSLContext:
    import ssl  # Imported here, because it takes a while, and most programs never connect.

    path = security.cafile
    try:
        context = ssl.create_default_context(cafile=path)
        context.check_hostname = security.check_hostname
        if security.certfile or security.keyfile:
            path = security.certfile or security.keyfile or ""
            # Without a password argument, OpenSSL would ask for a password in the terminal.
            context.load_cert_chain(path, security.keyfile, security.key_password or "")
    except OSError as error:  # ssl.SSLError is an OSError too.
        raise UsageError(f"{path}: not a usable PEM file: {error.strerror or error}") from None
    return context


def send(cluster: Cluster, broker_id: int | str, request: Any) -> Any:
    """Send a request to a broker, by kafka-python's broker id, and return the response.

    Raises NodeNotReadyError right after a failed connection to this broker, and otherwise KafkaConnectionError if there
    is no response.
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
        reason = _explain_refusal(cluster, connection) or describe_error(future.exception)
        raise KafkaConnectionError(f"{address}: {reason}")
    response = future.value
    if response.throttle_time_ms > 0:
        reason = f"{address} asks this client to wait, because a quota is exceeded"
        cluster.waits.sleep(cluster.net, response.throttle_time_ms / 1000, reason)
    return response


def _explain_refusal(cluster: Cluster, connection: Any) -> str | None:
    """Return the probable reason why the broker closed the connection early; None if it did not.

    A broker closes it after a wrong protocol or password, and kafka-python often loses the message that it has sent.
    """
    failure = connection.init_future.exception if connection is not None else None
    if failure is None or "disconnected" not in str(failure):
        return None
    # The broker sends the versions of its APIs before the login. So if the versions were received, the login failed.
    if connection.broker_version_data is not None and connection.sasl_enabled:
        return "the broker closed the connection at the login: check the SASL mechanism, the user and the password"
    protocol = cluster.manager.config["security_protocol"]
    return f"the broker closed the connection: check that this port uses {protocol}"


def describe_error(error: Any) -> str:
    """An error of kafka-python in one line. A connection error's message says enough without its name."""
    # In kafka-python, the attribute `message` is Kafka's name of the error, and `args` contains the message.
    name = str(getattr(error, "message", None) or type(error).__name__)
    message = " ".join(", ".join(str(part) for part in error.args if part).split())
    if not message:
        return name
    return message if name == "KafkaConnectionError" else f"{name}: {message}"


def describe_code(code: int) -> str:
    from kafka.errors import for_code

    return describe_error(for_code(code)())
