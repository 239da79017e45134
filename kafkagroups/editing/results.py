"""The results of an edit and of its steps."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from kafkagroups.editing.edited_log import Removed
from kafkagroups.log.cleaner import Compaction
from kafkagroups.log.damage import Damage


@dataclass(frozen=True)
class StepResult:
    """What one step did.

    `step` is the step's name, as in steps.py. `what` is one sentence. `first_offset` and `last_offset` are the Kafka
    offsets of the records that the step appended or removed; None if it did neither. `compaction` is the result of a
    cleaning pass, and `removed` what a cut removed; None for other steps.
    """

    step: str
    what: str
    first_offset: int | None = None
    last_offset: int | None = None
    compaction: Compaction | None = None
    removed: Removed | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the step as an object of the list `steps` in `Edit.to_json`."""
        row: dict[str, Any] = {
            "step": self.step,
            "first_offset": self.first_offset,
            "last_offset": self.last_offset,
            "what": self.what,
        }
        if self.removed is not None:
            row["removed"] = {name: getattr(self.removed, name) for name in ("segments", "batches", "records")}
        if self.compaction is not None:
            row |= {name: value for name, value in asdict(self.compaction).items() if name != "damage"}
        return row


@dataclass(frozen=True)
class Edit:
    """The result of an edit.

    `steps` has a result for each step, in order. `segments` are the base offsets of the segments in the folder `out`.
    `start_offset` is the first of them, and `next_offset` is the offset after the last batch. `damage` is where the
    log at `path` is damaged: only what is before the damage was copied. It is None if the log is not damaged.
    """

    path: str
    out: str
    steps: tuple[StepResult, ...]
    segments: tuple[int, ...]
    start_offset: int
    next_offset: int
    damage: Damage | None

    def to_json(self) -> dict[str, Any]:
        """Return the object that `edit --json` prints."""
        damage = self.damage
        return {
            "path": self.path,
            "out": self.out,
            "steps": [step.to_json() for step in self.steps],
            "segments": list(self.segments),
            "start_offset": self.start_offset,
            "next_offset": self.next_offset,
            "damage": damage
            and {
                "file": damage.file,
                "position": damage.position,
                "offset": damage.offset,
                "reason": damage.reason,
            },
        }
