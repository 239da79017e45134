"""Which values a request can contain: the types of its fields.

Python callers can pass a value that does not fit into its field, for example a producer epoch of 40,000. `check_fields`
then raises UsageError before the coordinator changes anything.

    text                                at most 32767 bytes in UTF-8; no half of a surrogate pair
    producer epoch                      int16
    offset, producer id, timestamp,     int64
    retention time
    all other numbers                   int32
    subscription, assignment            bytes
Source: the request schemas of 3.9 and 4.3.1 (JoinGroupRequest.json, TxnOffsetCommitRequest.json, …).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from kafkagroups.coordinator.messages import MemberIdentity, OffsetCommit
from kafkagroups.errors import UsageError
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.records.wire import INT16, INT32, INT64, MAX_STRING_BYTES

P = ParamSpec("P")
R = TypeVar("R")
Request = TypeVar("Request")
Verbs = TypeVar("Verbs")


class FieldType(Protocol):
    """The type of a field."""

    def check(self, value: Any) -> Any:
        """Return the value, an iterator as a list. Raises UsageError if no request can contain it."""


def check_field(name: str, field_type: FieldType, value: Any) -> Any:
    try:
        return field_type.check(value)
    except UsageError as error:
        raise error.prefix_field(name) from None


@dataclass(frozen=True)
class Text:
    max_bytes: int

    def check(self, value: Any) -> str:
        if not isinstance(value, str):
            raise _refuse_type("a string", value)
        try:
            size = len(value.encode())
        except UnicodeEncodeError as error:
            message = f"expected text with an encoding in UTF-8, found half of a surrogate pair at index {error.start}"
            raise UsageError(message) from None
        if size > self.max_bytes:
            raise UsageError(f"expected at most {self.max_bytes} bytes of UTF-8, found {size} bytes")
        return value


class RawBytes:
    def check(self, value: Any) -> bytes:
        if not isinstance(value, bytes):
            raise _refuse_type("bytes", value)
        return value


@dataclass(frozen=True)
class Nullable:
    of: FieldType

    def check(self, value: Any) -> Any:
        return None if value is None else self.of.check(value)


@dataclass(frozen=True)
class ListOf:
    of: FieldType

    def check(self, value: Any) -> list[Any]:
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            raise _refuse_type("a list", value)
        return [check_field(f"[{index}]", self.of, element) for index, element in enumerate(value)]


@dataclass(frozen=True)
class MappingOf:
    key: FieldType
    value: FieldType

    def check(self, value: Any) -> dict[Any, Any]:
        if not isinstance(value, Mapping):
            raise _refuse_type("a mapping", value)
        for index, key in enumerate(value):
            check_field(f"[key {index}]", self.key, key)
        return {key: check_field(f"[{key}]", self.value, content) for key, content in value.items()}


@dataclass(frozen=True)
class ObjectOf:
    cls: type
    attributes: Mapping[str, FieldType]

    def check(self, value: Any) -> Any:
        if not isinstance(value, self.cls):
            raise _refuse_type(self.cls.__name__, value)
        for name, attribute_type in self.attributes.items():
            check_field(name, attribute_type, getattr(value, name))
        return value


class LeavingMember:
    def check(self, value: Any) -> str | MemberIdentity:
        checked: str | MemberIdentity = (TEXT if isinstance(value, str) else _IDENTITY).check(value)
        return checked


class Pair:
    def check(self, value: Any) -> tuple[Any, Any]:
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise _refuse_type("a pair", value)
        return value[0], value[1]


class ProtocolList:
    """Pairs of a protocol's name and the member's metadata. Two pairs with the same name are refused."""

    def check(self, value: Any) -> list[tuple[str, bytes]]:
        protocols: dict[str, bytes] = {}
        for index, (name, metadata) in enumerate(ListOf(Pair()).check(value)):
            check_field(f"[{index}].name", TEXT, name)
            check_field(f"[{index}].metadata", RAW_BYTES, metadata)
            if name in protocols:
                raise UsageError(f"expected each protocol once, found {name!r} again", field=f"[{index}].name")
            protocols[name] = metadata
        return list(protocols.items())


def _refuse_type(expected: str, value: Any) -> UsageError:
    return UsageError(f"expected {expected}, found a value of type {type(value).__name__}")


MEMBER_ID_SUFFIX_BYTES = 37
"""The hyphen and the UUID that a broker appends to a client id or an instance id to build a member id."""
TEXT = Text(MAX_STRING_BYTES)
CLIENT_TEXT = Text(MAX_STRING_BYTES - MEMBER_ID_SUFFIX_BYTES)
"""A client id or an instance id. A member id that contains it must be a TEXT, too."""
RAW_BYTES = RawBytes()
PARTITION = ObjectOf(TopicPartition, {"topic": TEXT, "partition": INT32})
COMMITS = MappingOf(
    PARTITION,
    ObjectOf(OffsetCommit, {"offset": INT64, "metadata": Nullable(TEXT), "leader_epoch": INT32, "timestamp": INT64}),
)
_IDENTITY = ObjectOf(MemberIdentity, {"member_id": TEXT, "group_instance_id": Nullable(TEXT)})


_TEXTS = (
    *("group_id", "member_id", "group_instance_id", "instance_id", "rack_id", "client_host", "transactional_id"),
    *("protocol_type", "protocol", "server_assignor", "subscribed_topic_regex"),
)
_NUMBERS = ("generation", "member_epoch", "session_timeout_ms", "rebalance_timeout_ms", "partition", "epoch")
FIELD_TYPES: dict[str, FieldType] = {
    **dict.fromkeys(_TEXTS, TEXT),
    **dict.fromkeys(("group_ids", "subscribed_topic_names", "states", "types"), ListOf(TEXT)),
    **dict.fromkeys(_NUMBERS, INT32),
    **dict.fromkeys(("producer_id", "retention_ms", "first_ms"), INT64),
    **dict.fromkeys(("producer_epoch", "version"), INT16),
    "client_id": CLIENT_TEXT,
    "protocols": ProtocolList(),
    "members": ListOf(LeavingMember()),
    "assignments": MappingOf(TEXT, RAW_BYTES),
    "offsets": COMMITS,
    "partitions": ListOf(PARTITION),
    "topic_partitions": MappingOf(TEXT, ListOf(INT32)),
}
"""The types of the parameters of all requests, by name. A parameter that may be None is nullable."""


def check_fields(**special: FieldType) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that checks the arguments of a method before the method runs.

    `special` has the types of those parameters that do not have the type in `FIELD_TYPES`.
    """

    def decorate(method: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(method)
        types = _find_types(signature, special)

        @functools.wraps(method)
        def check_and_call(*args: P.args, **kwargs: P.kwargs) -> R:
            call = signature.bind(*args, **kwargs)
            _check_arguments(call, types)
            return method(*call.args, **call.kwargs)

        return check_and_call

    return decorate


def take_fields(
    request_class: Callable[P, Request], **special: FieldType
) -> Callable[[Callable[[Verbs, Request], R]], Callable[Concatenate[Verbs, P], R]]:
    """Return a decorator for a method that takes a request object, so that callers pass the fields of the request."""
    signature = inspect.signature(request_class)
    types = _find_types(signature, special)

    def decorate(method: Callable[[Verbs, Request], R]) -> Callable[Concatenate[Verbs, P], R]:
        @functools.wraps(method)
        def check_and_call(verbs: Verbs, /, *args: P.args, **kwargs: P.kwargs) -> R:
            call = signature.bind(*args, **kwargs)
            _check_arguments(call, types)
            return method(verbs, request_class(*call.args, **call.kwargs))

        own = inspect.signature(method)
        parameters = [next(iter(own.parameters.values())), *signature.parameters.values()]
        check_and_call.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        return check_and_call

    return decorate


def _find_types(signature: inspect.Signature, special: Mapping[str, FieldType]) -> dict[str, FieldType]:
    types = {}
    for name, parameter in signature.parameters.items():
        field_type = special.get(name) or FIELD_TYPES.get(name)
        if field_type is not None:
            types[name] = Nullable(field_type) if "None" in str(parameter.annotation) else field_type
    return types


def _check_arguments(call: inspect.BoundArguments, types: Mapping[str, FieldType]) -> None:
    for name, value in call.arguments.items():
        if name in types:
            call.arguments[name] = check_field(name, types[name], value)
