"""Kernels of hash tables with open addressing: tables of numbers and tables of texts.

A table of numbers is an array with a row for each place of the table. The first two columns are NUMBER and IS_USED. The
other columns belong to the user of the table.

A table of texts consists of two arrays. An element of `slots` is a slot: a tag, and the number of a text; -1 is a free
slot. A tag is 31 bits of the hash. If two tags differ, the texts differ, so their bytes are not compared. The first
column of `texts` contains the text reference of each text: where its bytes are in the arena. layout.py describes text
references. The other columns belong to the user of the table.

The size of a table is a power of two. At least one place is free.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.kernels.compiled import inlined, kernel
from kafkagroups.kernels.layout import ENTRY_MASK, IS_USED, NUMBER, SIZE_BITS, SIZE_MASK, TAG_SHIFT
from kafkagroups.kernels.scan import hash_bytes, hash_number, same_bytes


@kernel
def find_number(number: int, table: Any, secret: Any) -> int:
    """Return the row of a number, or the free row where it belongs. `secret` is the secret of the process."""
    mask = len(table) - 1
    row = hash_number(np.uint64(number), secret) & mask
    while table[row, IS_USED] and table[row, NUMBER] != number:
        row = row + 1 & mask
    return row


@kernel
def copy_numbers(rows: Any, larger: Any, secret: Any) -> None:
    """Copy the used rows of `rows` to `larger`, an empty table. `rows` can be a table or any rows of one."""
    for row in range(len(rows)):
        if rows[row, IS_USED]:
            new_row = find_number(rows[row, NUMBER], larger, secret)
            for column in range(rows.shape[1]):
                larger[new_row, column] = rows[row, column]


@inlined
def make_tag(hashed: int) -> int:
    """Return the tag of a text: 31 bits that are made from its 64-bit hash.

    The hashes of neighbouring partitions have similar upper halves (hash_key in table.py), so the tag mixes the bits of
    both halves.
    """
    return (hashed >> 32 ^ hashed) & 0x7FFFFFFF


@inlined
def make_slot(hashed: int, number: int) -> int:
    """Return the content of the slot of a text. `hashed` is its hash, and `number` its number."""
    return make_tag(hashed) << TAG_SHIFT | number


@kernel
def find_text(data: Any, start: int, size: int, hashed: int, slots: Any, texts: Any, arena: Any) -> int:
    """Return the slot of a text, or the free slot where it belongs.

    The text is the `size` bytes of `data` from `start` on, and `hashed` is their hash.
    """
    mask = len(slots) - 1
    slot = hashed & mask
    while slots[slot] >= 0:
        if slots[slot] >> TAG_SHIFT == make_tag(hashed):
            reference = texts[slots[slot] & ENTRY_MASK, 0]
            is_same_size = reference & SIZE_MASK == size
            if is_same_size and same_bytes(data, start, arena, reference >> SIZE_BITS, size):
                return slot
        slot = slot + 1 & mask
    return slot


@kernel
def add_texts(texts: Any, slots: Any, arena: Any, secret: Any) -> None:
    """Add all texts to `slots`, which must be empty. The texts must differ from each other."""
    for number in range(len(texts)):
        start = texts[number, 0] >> SIZE_BITS
        size = texts[number, 0] & SIZE_MASK
        hashed = hash_bytes(arena, start, size, secret)
        slots[find_text(arena, start, size, hashed, slots, texts, arena)] = make_slot(hashed, number)
