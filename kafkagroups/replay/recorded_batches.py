"""The batches of share and streams groups in a recorded log, which the replay appends as they are.

Our coordinator only loads share and streams groups. So that the rest of a conversation finds the same groups, the
replay appends what the recorded broker wrote for them, at its place.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from pathlib import Path

from kafkagroups.groups.modern import GROUP_TYPE_BY_RECORD_TYPE
from kafkagroups.log.folders import open_log
from kafkagroups.records.serde import Record, decode


class RecordedBatches:
    """The batches of share and streams groups. `folder` has the partitions of the recorded log; None: no batches."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def find(self, partition: int, first_offset: int | None, group_types: Collection[str]) -> list[Record]:
        """Return the records of a batch; nothing if it is a batch of groups of other types."""
        if first_offset is None:
            return []
        records = self._batches.get((partition, first_offset), [])
        return [record for record in records if GROUP_TYPE_BY_RECORD_TYPE[record.type] in group_types]

    @cached_property
    def _batches(self) -> dict[tuple[int, int], list[Record]]:
        batches: dict[tuple[int, int], list[Record]] = {}
        folders = [] if self.folder is None else sorted(self.folder.glob("__consumer_offsets-*"))
        for folder in folders:
            partition = int(folder.name.rpartition("-")[2])
            for batch in open_log(folder):
                if batch.is_control:
                    continue
                records = [decode(record.key, record.value) for record in batch.records]
                types = {GROUP_TYPE_BY_RECORD_TYPE.get(record.type) for record in records}
                if types <= {"share", "streams"}:
                    batches[partition, batch.base_offset] = records
        return batches
