"""The errors of this package: bad bytes, wrong calls, failed loads, Kafka's own error codes."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass


class KafkagroupsError(Exception):
    """The base class of every error that this package raises on purpose."""


@dataclass(eq=False, repr=False)
class UsageError(KafkagroupsError):
    """The caller asked for something impossible, such as a missing path or an unknown option: `reason` says what.

    `field` is the path of the wrong field in a record, such as `members[2].memberId`. None if no field is wrong.
    """

    reason: str
    _: KW_ONLY
    field: str | None = None

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}" if self.field else self.reason

    def prefix_field(self, outer_field: str) -> UsageError:
        self.field = join_path(outer_field, self.field)
        return self


def join_path(outer_path: str, inner_path: str | None) -> str:
    """Return the path of a field inside another field: "members" and "[2].memberId" give "members[2].memberId"."""
    if not inner_path:
        return outer_path
    return outer_path + inner_path if inner_path.startswith("[") else f"{outer_path}.{inner_path}"


class ForeignLog(UsageError):
    """The logs at a path are no logs of `__consumer_offsets`."""


@dataclass(eq=False, repr=False)
class BadBytes(KafkagroupsError):
    """Bytes that do not have the expected content: `reason` says what was expected, and what was found.

    `position` is that of the wrong bytes in the file; without a file, in the key, value or batch that was read.
    `offset` is the Kafka offset of the record or batch, and `field` the path of the wrong field; what is not known is
    None.
    """

    reason: str
    _: KW_ONLY
    file: str | None = None
    offset: int | None = None
    position: int | None = None
    field: str | None = None

    def __str__(self) -> str:
        labeled_values = (("", self.file), ("offset ", self.offset), ("byte ", self.position), ("", self.field))
        location = ", ".join(f"{label}{value}" for label, value in labeled_values if value is not None)
        return f"{location}: {self.reason}" if location else self.reason


@dataclass(frozen=True, slots=True)
class Deviation:
    """A non-canonical encoding: accepted by Kafka's reader, never produced by its writer, as `reason` says.

    `field` is the path of the field, such as `value.members[2].memberId`, and `position` is in bytes from the start of
    the key or the value.
    """

    field: str
    position: int
    reason: str

    def __str__(self) -> str:
        return f"byte {self.position}, {self.field}: {self.reason}"


class InvalidRecord(BadBytes):
    """A key or a value that cannot be read. A strict reader (`decode` with `strict=True`) also refuses bytes that Kafka
    reads but never writes, which are in `deviations`.

    `cause` is what kafka_tools/formatters.py needs to build Kafka's own message: a short name of the problem, then the
    numbers in the message. For example, `("version", 9, 1)`: value version 9 of record type 1 does not exist. It is
    empty if Kafka's exception has no message, for example because the bytes end too early.
    """

    deviations: tuple[Deviation, ...] = ()
    cause: tuple[str | int, ...] = ()

    def with_cause(self, *cause: str | int) -> InvalidRecord:
        self.cause = cause
        return self


class InvalidLog(BadBytes):
    """A batch or a file that a broker could not read, or a damaged snapshot of this package."""


@dataclass(eq=False, repr=False)
class BatchTooLarge(InvalidLog):
    """A batch that needs more memory than the reader's limit (`max_batch_bytes`) allows."""

    def __post_init__(self) -> None:
        self.reason += "; to read it, raise --max-batch-bytes (max_batch_bytes in Python and Spark)"


@dataclass(eq=False, repr=False)
class LoadFailed(KafkagroupsError):
    """The load of a partition fails, as it would fail in a broker; `reason` says why.

    `offset` is the Kafka offset of the record or batch at which it fails; None if it fails after the last record.
    """

    reason: str
    offset: int | None = None

    def __str__(self) -> str:
        return self.reason if self.offset is None else f"offset {self.offset}: {self.reason}"


class ApiError(KafkagroupsError):
    """An error code of Kafka's protocol. `name` is its name in Kafka's class Errors, such as NOT_COORDINATOR."""

    def __init__(self, code: int, name: str, message: str | None = None) -> None:
        super().__init__(message or name)
        self.code = code
        self.name = name
