"""The state of one partition's fold: its arrays, and what they say when the log has been read.

Room grows as it is needed, and dead keys are forgotten first. Nothing of a segment is kept but
its keys, the metadata of its offsets and the records of other types: memory is bounded by what lives, not by the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from io import RawIOBase
from typing import Any

import numpy as np

from kafkagroups.groups.offsets import OffsetAndMetadata, PartitionOffsets, TopicPartition
from kafkagroups.kernels import fold, layout, table, transactions
from kafkagroups.kernels.grouped import LIVE, KeptOffsets, group_keys, sort_live
from kafkagroups.kernels.kept import KeptRecords, longer
from kafkagroups.kernels.scan import BLOCK, CUT, FULL, ODD, OK, PACKED, PAUSED
from kafkagroups.kernels.unpack import readable, unpacked
from kafkagroups.records.dialect import Dialect
from kafkagroups.records.text import decode_utf8, uuid_text

Array = np.ndarray[Any, Any]
FIRST_KEYS, FIRST_PRODUCERS, ROWS = 4096, 64, 4096
MOST_FIRST_KEYS = (1 << 15) - 1
FIRST_NAMES, FIRST_BYTES = 2048, 1 << 18
GROWTH, BYTES_FOR_A_KEY, MOST_KEYS = 4, 512, 1 << 22
"""How many times the room there is when there was too little; or a key's for so many bytes of the log, up to a most:
what is not used is only promised."""
STRIDE, PIECE = 8 * 1024 * 1024, 2 * 1024 * 1024
"""Bytes that are folded before the caller hears of it; bytes of a file that are in memory at once."""


class Fold:
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
        self.counts = np.zeros(12, np.int64)
        self.counts[layout.FREE] = -1
        self._likely_keys = min(size // BYTES_FOR_A_KEY, MOST_KEYS)
        keys = 1 << max(FIRST_KEYS, min(size // 1024, MOST_FIRST_KEYS)).bit_length()
        lines, self.arena, tombs = _rooms(64 * keys, FIRST_BYTES, 8 * keys)
        self.entries, self.tombs = lines.view(np.int64).reshape(keys, 8), tombs.view(np.int64)
        self.more = np.zeros((keys, 4), np.int64)
        self.slots = _slots(2 * keys)
        self.names = np.empty((FIRST_NAMES, 2), np.int64)
        self.name_slots = _slots(2 * FIRST_NAMES)
        self.nodes = np.empty((2048, 8), np.int64)
        self.node_more = np.zeros((2048, 4), np.int64)
        self.producers = np.zeros((FIRST_PRODUCERS, 3), np.int64)
        self.row_places = np.empty((ROWS, 5), np.int64)
        self.block = np.empty((BLOCK, 8), np.int64)
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

    def file(self, file: RawIOBase, passed: Callable[[int], None] = lambda at: None) -> bool:
        """The same of a segment in a file: it is read piece by piece, into memory that is near."""
        room, kept, read, is_last, has_ended = np.empty(PIECE, np.uint8), 0, 0, False, False
        while not (is_last or self.is_cut):
            more = file.readinto(room[kept:]) or 0
            read, is_last = read + more, not more
            data = readable(room[: kept + more])
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
            status, at = fold.fold_segment(data, at, STRIDE, is_last, self._tables(), self.row_places, self.block)
            self.others.take(data, self.row_places[: self.counts[layout.ROWS]])
            self.counts[layout.ROWS] = 0
            if status == FULL:
                self._grow(data, at)
            elif status == PACKED:
                plain, at = unpacked(data, at)
                if plain is None or not self.segment(plain):
                    return ODD, at
            passed(at)
        self.is_cut = self.is_cut or status == CUT
        return status, at

    def _tables(self) -> layout.Tables:
        return layout.Tables(*(getattr(self, name) for name in layout.Tables._fields))

    def _grow(self, data: Array, at: int) -> None:
        """Makes room for the batch at a position, and for much more."""
        size = int.from_bytes(data[at + 8 : at + 12].tobytes(), "big") + 12
        count = int.from_bytes(data[at + 57 : at + 61].tobytes(), "big")
        new_keys = count + BLOCK
        if self._lacks_keys(new_keys) or self._lacks_names(new_keys) or self._lacks_bytes(size):
            self._drop_dead()
        if (keys := int(self.counts[layout.ENTRIES]) + new_keys) > len(self.entries):
            room = max(GROWTH * len(self.entries), 2 * keys, self._likely_keys)
            before, self.entries = self.entries, _rooms(64 * room)[0].view(np.int64).reshape(room, 8)
            self.entries[: len(before)] = before
            self.more, self.tombs = longer(self.more, room), longer(self.tombs, room)
        if 2 * keys > len(self.slots):
            self._rehash(keys)
        if self._lacks_names(new_keys):
            self.names = longer(self.names, GROWTH * (len(self.names) + new_keys))
            self._name_again()
        if self._lacks_bytes(size):
            room = max(GROWTH * len(self.arena), 2 * (int(self.counts[layout.ARENA]) + size))
            self.arena = longer(self.arena, room)
        if self.counts[layout.NODES] + new_keys > len(self.nodes):
            room = 2 * max(len(self.nodes), int(self.counts[layout.NODES]) + new_keys)
            self.nodes, self.node_more = longer(self.nodes, room), longer(self.node_more, room)
        if 2 * (self.counts[layout.PRODUCERS] + 2) > len(self.producers):
            self._drop_producers()
        if count > len(self.row_places):
            self.row_places = np.empty((count, 5), np.int64)

    def _lacks_keys(self, count: int) -> bool:
        keys = int(self.counts[layout.ENTRIES]) + count
        return keys > len(self.entries) or 2 * keys > len(self.slots)

    def _lacks_names(self, count: int) -> bool:
        return int(self.counts[layout.NAMES]) + count > min(len(self.names), len(self.name_slots) // 2)

    def _lacks_bytes(self, size: int) -> bool:
        return bool(self.counts[layout.ARENA] + size > len(self.arena))

    def _rehash(self, keys: int) -> None:
        """Makes the slots anew, for some times as many keys."""
        self.slots = _slots(max(FIRST_KEYS, 1 << (4 * keys).bit_length()))
        table.rehash(self.entries, self.counts[layout.ENTRIES], self.names, self.slots)

    def _name_again(self) -> None:
        self.name_slots = _slots(1 << (2 * len(self.names) - 1).bit_length())
        table.name_again(self.names, self.counts[layout.NAMES], self.arena, self.name_slots)

    def _drop_dead(self) -> None:
        """Forgets keys without an offset or anything pending, and texts of old, where that halves something.

        Of a group whose keys are all dead one stays: the log names the group.
        """
        count = int(self.counts[layout.ENTRIES])
        wanted = self.entries[:count, layout.RECORD] >= 0
        transactions.mark_pending(self.nodes, self.producers, wanted)
        if 2 * wanted.sum() > count and 2 * self.counts[layout.GARBAGE] < self.counts[layout.ARENA]:
            return
        groups, group_of = self._groups()
        table.keep_one(self.entries, count, groups, group_of, wanted)
        renamed = np.cumsum(wanted) - 1
        left = int(wanted.sum())
        for array in (self.entries, self.more, self.tombs):
            array[:left] = array[:count][wanted]
        arena = np.empty_like(self.arena)
        names, numbers = np.empty_like(self.names), np.full(int(self.counts[layout.NAMES]), -1, np.int64)
        self.counts[[layout.NAMES, layout.ARENA]] = table.copy_texts(
            self.entries, left, self.names, numbers, names, self.arena, arena
        )
        transactions.move_pending(self.nodes, self.producers, renamed, self.arena, arena, self.counts)
        self.names, self.arena = names, arena
        self.counts[layout.ENTRIES], self.counts[layout.GARBAGE] = left, 0
        self._name_again()
        self._rehash(left)

    def _drop_producers(self) -> None:
        """Forgets producers without anything pending, and makes room for as many again as are left."""
        left = self.producers[(self.producers[:, 2] != 0) & (self.producers[:, 1] >= 0)]
        self.producers = np.zeros((max(FIRST_PRODUCERS, 1 << (8 * len(left)).bit_length()), 3), np.int64)
        self.counts[layout.PRODUCERS] = 0
        for producer, node, _ in left.tolist():
            self.producers[transactions.place_of(producer, self.counts, self.producers), 1] = node

    def _groups(self) -> tuple[Array, Array]:
        """The groups that keys name (see grouped.py), and which one each name has."""
        count, many = self.counts[[layout.ENTRIES, layout.NAMES]].tolist()
        group_of = np.empty(many, np.int64)
        groups = np.empty((many, 4), np.int64)
        slots = np.full(1 << (2 * many + 1).bit_length(), -1, np.int64)
        return groups[
            : group_keys(self.entries, count, self.names, many, self.arena, slots, groups, group_of)
        ], group_of

    def saved(self) -> dict[str, Array]:
        """The arrays that `restored` needs, and no more; `others` are the caller's."""
        count, used = int(self.counts[layout.ENTRIES]), int(self.counts[layout.ARENA])
        whole = {name: getattr(self, name) for name in ("counts", "nodes", "node_more", "producers")}
        keys = {name: getattr(self, name)[:count] for name in ("entries", "more", "tombs")}
        return {**whole, **keys, "names": self.names[: self.counts[layout.NAMES]], "arena": self.arena[:used]}

    @classmethod
    def restored(cls, rules: Dialect, saved: Mapping[str, Array]) -> Fold:
        """The fold as it was saved, to go on with the records behind its `next_offset`."""
        fold = cls(rules)
        for name, array in saved.items():
            setattr(fold, name, array)
        fold._name_again()
        fold._rehash(len(fold.entries))
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
        groups, group_of = self._groups()
        ends = np.cumsum(groups[:, LIVE]) - groups[:, LIVE]
        order = np.empty(int(groups[:, LIVE].sum()), np.int64)
        sort_live(self.entries, count, group_of, ends, order)

        kept, newest = {}, {}
        for (place, size, last, live), end in zip(groups.tolist(), ends.tolist(), strict=True):
            name = decode_utf8(self._arena[place : place + size])
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


def _slots(count: int) -> Array:
    slots = _rooms(8 * count)[0].view(np.int64)
    slots[:] = -1
    return slots


def _rooms(*sizes: int) -> list[Array]:
    """Room for so many bytes each, from cache line to cache line, in one piece: a large one is made of large pages."""
    ends = np.cumsum([size + -size % 64 for size in sizes]).tolist()
    raw = np.empty(ends[-1] + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return [raw[start + end - size - -size % 64 :][:size] for size, end in zip(sizes, ends, strict=True)]
