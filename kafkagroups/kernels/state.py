"""The state of one partition's fold: its arrays, and what they say when the log has been read.

Nothing of a segment is kept but its keys, the metadata of its offsets and the records of other types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from io import BufferedIOBase, RawIOBase

import numpy as np

from kafkagroups.groups.offsets import OffsetAndMetadata, PartitionOffsets, TopicPartition
from kafkagroups.kernels import fold, layout
from kafkagroups.kernels.grouped import LIVE, KeptOffsets, sort_live
from kafkagroups.kernels.kept import KeptRecords
from kafkagroups.kernels.room import Array, Room
from kafkagroups.kernels.scan import CUT, FULL, ODD, OK, PACKED, PAUSED
from kafkagroups.kernels.unpack import as_array, decompress_run
from kafkagroups.records.text import decode_utf8, uuid_text
from kafkagroups.records.versions import Dialect

STRIDE, PIECE = 8 * 1024 * 1024, 2 * 1024 * 1024
"""Bytes that are folded before the caller hears of it; bytes of a file that are in memory at once."""


class Fold(Room):
    """The state of one partition's fold. `segment` takes the segments in order and says whether it understood them."""

    def __init__(self, rules: Dialect, until: int | None = None, until_time: int | None = None, size: int = 0) -> None:
        """`size`: about how many bytes will come, so that there is room for what they may hold."""
        classic = rules.coordinator == "classic"
        self.rules = np.array(
            [
                classic,
                rules.offset_values,
                rules.type0_values,
                not classic and rules.version >= (4, 1),
                _limit(until),
                _limit(until_time),
                True,
                classic and not rules.since(2, 0, 1),
            ],
            np.int64,
        )
        super().__init__(size)
        self._group_values = rules.group_values
        self.others = KeptRecords(self._group_values)
        self.is_cut = False
        self._classic = classic
        self._texts: dict[bytes, str] = {}
        self._names: dict[int, tuple[str, str]] = {}

    def segment(self, data: Array, passed: Callable[[int], None] = lambda at: None) -> bool:
        """Takes the next segment's bytes (uint8, read-only). False: the readable loader is to load the partition.

        `passed` hears now and then how many bytes have been read.
        """
        status, _ = self._take(data, True, passed)
        passed(len(data))
        return status != ODD

    def file(self, file: RawIOBase | BufferedIOBase, passed: Callable[[int], None] = lambda at: None) -> bool:
        """The same of a segment in a file: it is read piece by piece, into memory that is near."""
        room, kept, read, is_last, has_ended = np.empty(PIECE, np.uint8), 0, 0, False, False
        while not (is_last or self.is_cut):
            more = file.readinto(room[kept:]) or 0
            read, is_last = read + more, not more
            data = as_array(room[: kept + more])
            if has_ended:
                if data.any():
                    return False
                continue
            status, at = self._take(data, is_last)
            if status == ODD:
                return False
            has_ended = status == OK and at < len(data)
            kept = 0 if has_ended else len(data) - at
            if kept == len(room):
                room = np.empty(2 * kept, np.uint8)
            room[:kept] = data[len(data) - kept :]
            passed(read - kept)
        return True

    def _take(self, data: Array, is_last: bool, passed: Callable[[int], None] = lambda at: None) -> tuple[int, int]:
        """Folds what is whole in a piece of a segment; a status, and where it stopped."""
        at, status = 0, FULL
        while status in (FULL, PACKED, PAUSED) and not self.is_cut:
            status, at = fold.fold_segment(data, at, STRIDE, is_last, self.tables(), self.row_places, self.block)
            self.others.take(data, self.row_places[: self.counts[layout.ROWS]])
            self.counts[layout.ROWS] = 0
            if status == FULL:
                size, count = (int.from_bytes(data[at + n : at + n + 4].tobytes(), "big") for n in (8, 57))
                self.grow(size + 12, count)
            elif status == PACKED:
                plain, at = decompress_run(data, at)
                if plain is None or not self.segment(plain):
                    return ODD, at
            passed(at)
        self.is_cut = self.is_cut or status == CUT
        return status, at

    @classmethod
    def restored(cls, rules: Dialect, saved: Mapping[str, Array]) -> Fold:
        """The fold as it was saved, to go on with the records behind its `next_offset`."""
        fold = cls(rules)
        fold.restore(saved)
        return fold

    def go_on(self) -> None:
        """What was read so far is dealt with: `others` will be those that come from now on."""
        self.others = KeptRecords(self._group_values)
        self.__dict__.pop("_arena", None)
        self._names.clear()

    def committed(self) -> tuple[dict[str, KeptOffsets], dict[str, int]]:
        """By group, what is committed; and the newest record that committed anything, whatever became of it (-1: none).

        Every group that an offset's record names is in the second.
        """
        count = int(self.counts[layout.ENTRIES])
        groups, group_of = self.groups()
        ends = np.cumsum(groups[:, LIVE]) - groups[:, LIVE]
        order = np.empty(int(groups[:, LIVE].sum()), np.int64)
        sort_live(self.entries, count, group_of, ends, order)

        kept, newest, arena = {}, {}, memoryview(self.arena)
        for (place, size, last, live), end in zip(groups.tolist(), ends.tolist(), strict=True):
            name = decode_utf8(bytes(arena[place : place + size]))
            newest[name] = last
            if live:
                kept[name] = KeptOffsets(self, order[end - live : end])
        return kept, newest

    def offsets(self, entries: Array) -> PartitionOffsets:
        """What is committed under these entries' keys."""
        rows, more = self.entries[entries].tolist(), self.more[entries].tolist()
        return {self._key(row[layout.NAME])[1]: self._offset(row, extra) for row, extra in zip(rows, more, strict=True)}

    def pending(self) -> dict[int, dict[str, PartitionOffsets]]:
        """By producer, then group, what waits for a marker."""
        out: dict[int, dict[str, PartitionOffsets]] = {}
        classic = bool(self.rules[layout.CLASSIC])
        for producer, node, used in self.producers.tolist():
            decided = set()
            while used and node >= 0:
                row = self.nodes[node].tolist()
                entry = row[layout.ENTRY] if row[layout.ENTRY] >= 0 else ~row[layout.ENTRY]
                is_dead = row[layout.ENTRY] < 0 or (not classic and row[layout.RECORD] < self.tombs[entry])
                if entry not in decided:
                    decided.add(entry)
                    if not is_dead:
                        group, partition = self._key(int(self.entries[entry, layout.NAME]))
                        offset = self._offset(row, self.node_more[node].tolist())
                        out.setdefault(producer, {}).setdefault(group, {})[partition] = offset
                node = row[layout.NEXT]
        return out

    def _key(self, key: int) -> tuple[str, TopicPartition]:
        """The group and the topic's partition of a key."""
        number, partition = key >> 32, key & layout.PARTITION
        name = self._names.get(number)
        if name is None:
            text = self._bytes(int(self.names[number, layout.PLACE]))
            group = 2 + int.from_bytes(text[:2], "big")
            name = self._names[number] = self._text(text[2:group]), self._text(text[group + 2 :])
        return name[0], TopicPartition(name[1], partition - (partition >> 31 << 32))

    def _offset(self, row: list[int], more: list[int]) -> OffsetAndMetadata:
        flags = row[layout.EPOCH]
        epoch = flags & 0xFFFFFFFF
        topic_id = None
        if flags & layout.HAS_TOPIC:
            topic_id = uuid_text(b"".join((each & (1 << 64) - 1).to_bytes(8, "little") for each in more[1:3]))
        return OffsetAndMetadata(
            row[layout.COMMITTED],
            decode_utf8(self._bytes(row[layout.NOTE])) if row[layout.NOTE] else "",
            row[layout.TIME],
            epoch - (1 << 32) if epoch >> 31 else epoch,
            more[0] if flags & layout.HAS_EXPIRE else None,
            topic_id,
            row[layout.RECORD],
            row[layout.BATCH] if self._classic else row[layout.RECORD],
        )

    def _bytes(self, place: int) -> bytes:
        return self._arena[place >> 20 : (place >> 20) + (place & layout.SIZE)]

    def _text(self, data: bytes) -> str:
        """Names come again and again."""
        text = self._texts.get(data)
        if text is None:
            text = self._texts[data] = decode_utf8(data)
        return text

    @cached_property
    def _arena(self) -> bytes:
        """What the arena holds, once nothing is folded any more."""
        return self.arena[: self.counts[layout.ARENA]].tobytes()


def _limit(value: int | None) -> int:
    return layout.MOST if value is None else max(-layout.MOST, min(value, layout.MOST))
