"""The errors of this package: bad bytes, wrong calls, failed loads, Kafka's own error codes."""

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
        The path of the wrong field, such as `members[2].memberId`, or None.
    """

    def __init__(self, reason: str, *, field: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.field = field

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}" if self.field else self.reason

    def prefix_field(self, field: str) -> UsageError:
        """Put `field`, the name of the outer struct or array, in front of the path. Return the same error."""
        self.field = join_path(field, self.field)
        return self


def join_path(outer: str, inner: str | None) -> str:
    """Return the path of a field inside an outer field: `members[2]`, `[2].memberId`."""
    if not inner:
        return outer
    return outer + inner if inner.startswith("[") else f"{outer}.{inner}"


class BadBytes(KafkagroupsError):
    """Bytes that do not have the expected content.

    Attributes
    ----------
    reason
        What was expected, and what was found.
    file
        The path of the file.
    position
        The byte position in the file. If `file` is None, it is the byte position in the key or the value.
    offset
        The offset of the record or batch in the log.
    field
        The path of the field: `value.members[2].memberId`.

    An attribute that is not known is None.
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
    """Return a reason with its location in front: file, offset, byte position and field."""
    parts = (("", file), ("offset ", offset), ("byte ", position), ("", field))
    location = ", ".join(f"{name}{value}" for name, value in parts if value is not None)
    return f"{location}: {reason}" if location else reason


@dataclass(frozen=True, slots=True)
class Deviation:
    """A non-canonical encoding: accepted by Kafka's reader, never produced by its writer.

    Attributes
    ----------
    field, position
        The location of the encoding, as in BadBytes.
    reason
        What is not canonical.
    """

    field: str
    position: int
    reason: str

    def __str__(self) -> str:
        return _locate(self.reason, None, None, self.position, self.field)


class InvalidRecord(BadBytes):
    """A key or a value that a Kafka reader refuses, or that a strict reader refuses because of its `deviations`.

    A strict reader (`decode` with `strict=True`) also refuses bytes that Kafka reads but never writes. `cause` is a
    short name of the problem with its numbers, such as ("version", 9, 1). kafka_tools/error_messages.py builds Kafka's
    own message from the cause. The cause is empty if the bytes end too early.
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
    """A broker's load of a partition fails; `reason` says why.

    `offset` is the offset of the record or batch at which the load fails. It is None if the load fails after the last
    record.
    """

    def __init__(self, reason: str, offset: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset

    def __str__(self) -> str:
        return self.reason if self.offset is None else f"offset {self.offset}: {self.reason}"


class ApiError(KafkagroupsError):
    """An error code of Kafka's protocol.

    `code` is the number of the error. `name` is its constant in Kafka's class Errors.
    """

    def __init__(self, code: int, name: str, message: str | None = None) -> None:
        super().__init__(message or name)
        self.code = code
        self.name = name
