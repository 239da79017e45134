"""What can go wrong: bad bytes, wrong calls, failed loads, and Kafka's own error codes."""

from __future__ import annotations

from dataclasses import dataclass


class KafkagroupsError(Exception):
    """The base class of every error that this package raises on purpose."""


class UsageError(KafkagroupsError):
    """The caller asked for something impossible, such as a missing path or an unknown option.

    Attributes
    ----------
    reason
        What is wrong.
    field
        The path of the field that cannot be written, or None.
    """

    def __init__(self, reason: str, *, field: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.field = field

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}" if self.field else self.reason

    def prefix_field(self, field: str) -> UsageError:
        """Put the name of the struct or array around the field in front of its path. Return the same error."""
        self.field = join_path(field, self.field)
        return self


def join_path(outer: str, inner: str | None) -> str:
    """Return the path of a field inside a field: `members[2]`, `[2].memberId`."""
    if not inner:
        return outer
    return outer + inner if inner.startswith("[") else f"{outer}.{inner}"


class BadBytes(KafkagroupsError):
    """Bytes that are not what they should be.

    Attributes
    ----------
    reason
        What was expected, and what was found.
    file, position
        The file, and the byte in it. Without a file: the byte in the key or value.
    offset
        The offset of the record or batch in the log.
    field
        The path of the field: `value.members[2].memberId`.

    An unknown attribute is None.
    """

    def __init__(
        self,
        reason: str,
        *,
        file: str | None = None,
        offset: int | None = None,
        position: int | None = None,
        field: str | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.file = file
        self.offset = offset
        self.position = position
        self.field = field

    def __str__(self) -> str:
        return _locate(self.reason, self.file, self.offset, self.position, self.field)


def _locate(reason: str, file: str | None, offset: int | None, position: int | None, field: str | None) -> str:
    """Return a reason with the place in front of it."""
    places = (("", file), ("offset ", offset), ("byte ", position), ("", field))
    where = ", ".join(f"{name}{value}" for name, value in places if value is not None)
    return f"{where}: {reason}" if where else reason


@dataclass(frozen=True, slots=True)
class Deviation:
    """A non-canonical encoding: accepted by Kafka's reader, never produced by its writer.

    Attributes
    ----------
    field, position
        Where it is, as in BadBytes.
    reason
        What is not canonical.
    """

    field: str
    position: int
    reason: str

    def __str__(self) -> str:
        return _locate(self.reason, None, None, self.position, self.field)


class InvalidRecord(BadBytes):
    """A key or a value that a Kafka reader refuses, or that a strict reader refuses for its `deviations`.

    `cause` is a kind and its numbers. Kafka's own messages are made from it (kafka_tools/error_messages.py).
    It is empty if the bytes just end.
    """

    deviations: tuple[Deviation, ...] = ()
    cause: tuple[str | int, ...] = ()

    def with_cause(self, *cause: str | int) -> InvalidRecord:
        """Set the cause. Return the same error."""
        self.cause = cause
        return self


class InvalidLog(BadBytes):
    """A batch, or a whole file, that a broker could not read."""


class LoadFailed(KafkagroupsError):
    """The reason why a broker's load of a partition fails.

    `offset` is the record's offset. It is None if the load fails after the last record.
    """

    def __init__(self, reason: str, offset: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset

    def __str__(self) -> str:
        return self.reason if self.offset is None else f"offset {self.offset}: {self.reason}"


class ApiError(KafkagroupsError):
    """An error code of Kafka's protocol.

    `code` is its number, `name` its constant in Kafka's class Errors.
    """

    def __init__(self, code: int, name: str, message: str | None = None) -> None:
        super().__init__(message or name)
        self.code = code
        self.name = name
