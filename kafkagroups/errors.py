"""What can go wrong: bad bytes, bad callers, and Kafka's own error codes."""

from __future__ import annotations

from dataclasses import dataclass


class KafkagroupsError(Exception):
    """The base of every error that this package raises on purpose."""


class UsageError(KafkagroupsError):
    """The caller asked for something that cannot be: no such path, an unknown option, a value that no record can hold.

    `field` is the path of the field that cannot be written, where there is one.
    """

    def __init__(self, reason: str, *, field: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.field = field

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}" if self.field else self.reason

    def inside(self, field: str) -> UsageError:
        """The same error, seen from the struct or array around it."""
        self.field = nested(field, self.field)
        return self


def nested(outer: str, inner: str | None) -> str:
    """The path of a field inside a field: `members` and `[2]`, `[2]` and `memberId`."""
    if not inner:
        return outer
    return outer + inner if inner.startswith("[") else f"{outer}.{inner}"


class BadBytes(KafkagroupsError):
    """Bytes that are not what they should be.

    `file` and `position` (a byte's place in that file, or in the key or value) say where, `offset` is the
    record's or batch's offset in the log, `field` the path of the field (`value.members[2].memberId`), `reason` what
    was expected and what was found. What is not known is None.
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
        return _told(self.reason, self.file, self.offset, self.position, self.field)


def _told(reason: str, file: str | None, offset: int | None, position: int | None, field: str | None) -> str:
    places = (("", file), ("offset ", offset), ("byte ", position), ("", field))
    where = ", ".join(f"{name}{value}" for name, value in places if value is not None)
    return f"{where}: {reason}" if where else reason


@dataclass(frozen=True, slots=True)
class Deviation:
    """One place of a record that Kafka's reader takes and its writer would not have written like that.

    `field` and `position` say where, as in BadBytes; `reason` says what is odd.
    """

    field: str
    position: int
    reason: str

    def __str__(self) -> str:
        return _told(self.reason, None, None, self.position, self.field)


class InvalidRecord(BadBytes):
    """A key or a value that a Kafka reader refuses, or for its `deviations` a strict one.

    `cause` is what it stumbled over, a kind and its numbers, for Kafka's own words (kafka_tools/words.py); empty
    where the bytes just end.
    """

    deviations: tuple[Deviation, ...] = ()
    cause: tuple[str | int, ...] = ()

    def because(self, *cause: str | int) -> InvalidRecord:
        """The same error, its cause told."""
        self.cause = cause
        return self


class InvalidLog(BadBytes):
    """A batch, or a whole file, that a broker could not read."""


class LoadFailed(KafkagroupsError):
    """Something at which that broker's load of a partition fails; `offset` is the record's, None at the load's end."""

    def __init__(self, reason: str, offset: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset

    def __str__(self) -> str:
        return self.reason if self.offset is None else f"offset {self.offset}: {self.reason}"


class ApiError(KafkagroupsError):
    """An error code of Kafka's protocol: `code` is its number, `name` its constant in Kafka's class Errors."""

    def __init__(self, code: int, name: str, message: str | None = None) -> None:
        super().__init__(message or name)
        self.code = code
        self.name = name
