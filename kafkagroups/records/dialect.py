"""Which record types and value versions which Kafka's group coordinator reads.

Two coordinators exist: the classic one (Scala, up to 3.9) and the new one (Java, from 4.0 on; a preview before).
What they cannot read they refuse, and then the load of the whole partition fails; what they only do not know they
skip. The rules of any version are those of the newest line at or below it:

    classic  0     offset values 0                        key type 0; other types fail
             0.9   offset values 0-1, group values 0      key types 0-2; other types fail
             0.10.1                   group values 0-1
             2.1   offset values 0-3, group values 0-2
             2.3                      group values 0-3
             3.4.1 offset and group values up to 4; other types are skipped
    new      4.0   offset and group values up to 4; type 0 has the values of type 1
             4.1   type 0 has value 0 only; offset values know the topic id (tag 0)

Source: GroupMetadataManager.scala (tags 0.9.0.1 to 3.9), GroupCoordinatorRecordSerde.java, and the captured brokers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kafkagroups.errors import UsageError
from kafkagroups.records.fields import kafka_version

Coordinator = Literal["classic", "new"]


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one coordinator of one Kafka version reads."""

    coordinator: Coordinator
    kafka: str
    version: tuple[int, ...]
    offset_values: int
    """The highest readable version of an offset value."""
    group_values: int
    """The highest readable version of a group value; -1: there are no group records."""
    type0_values: int
    """The highest readable value version under key type 0."""
    skips_unknown_types: bool

    def since(self, *version: int) -> bool:
        """Whether this Kafka has what came with that version; the new coordinator has all of the classic one's."""
        return self.coordinator == "new" or self.version >= version


DEFAULT_KAFKA: dict[Coordinator, str] = {"classic": "3.9.2", "new": "4.3.1"}


def dialect(coordinator: str = "new", kafka: str | None = None) -> Dialect:
    """The rules of a coordinator, by default 4.3.1's (new) or 3.9.2's (classic). UsageError for an unknown name."""
    if coordinator == "classic":
        kafka = kafka or DEFAULT_KAFKA["classic"]
        version = kafka_version(kafka)
        offset = 4 if version >= (3, 4, 1) else 3 if version >= (2, 1) else 1 if version >= (0, 9) else 0
        group = (
            4 if version >= (3, 4)
            else 3 if version >= (2, 3)
            else 2 if version >= (2, 1)
            else 1 if version >= (0, 10, 1)
            else 0 if version >= (0, 9)
            else -1
        )  # fmt: skip
        # A classic reader never knew tag 0 of an offset value, whatever version number it is given here.
        return Dialect("classic", kafka, min(version, (3, 9)), offset, group, offset, version >= (3, 4, 1))
    if coordinator == "new":
        kafka = kafka or DEFAULT_KAFKA["new"]
        version = kafka_version(kafka)
        return Dialect("new", kafka, version, 4, 4, 0 if version >= (4, 1) else 4, True)
    raise UsageError(f'the coordinator is "classic" or "new", not {coordinator!r}')
