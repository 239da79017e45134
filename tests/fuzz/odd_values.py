"""Random odd values: numbers at the edges of types, texts that disturb terminals, changed bytes and changed JSON."""

from __future__ import annotations

import json
import random
from typing import Any

EDGES = sorted(
    {0, 1, -1, 40_000, 10**400}
    | {sign * 2**bits + step for sign in (-1, 1) for bits in (7, 8, 15, 16, 31, 32, 53, 63, 64) for step in (-1, 0, 1)}
)
"""The smallest and largest numbers of each type, and the numbers next to them."""
TEXTS = (
    "",
    "a\x00b",
    "\x1b[2J\x1b]0;title\x07",
    "\x9b31m\x85",
    "\u202egnp.exe\u2066\u200b\u2028",
    "a\r\nb",
    "half \ud800 pair",
    "grüß 😀",
    "x" * 300,
    "\ufffd" * 20,
    "../../etc/passwd",
    "__consumer_offsets-1",
    "=cmd()",
)
"""Texts with control characters, halves of surrogate pairs, paths, and extreme lengths."""
PIECES = (
    b"\0",
    b"\xff",
    b"\x80",
    b"\x7f",
    b"\0" * 8,
    b"\xff" * 8,
    b"\x7f" + b"\xff" * 7,
    b"\x80" + b"\0" * 7,
    b"\xed\xa0\x80",
)


def odd_number(rnd: random.Random) -> int:
    """Return a number at the edge of a type, a small number, or any number of 64 bits."""
    chance = rnd.random()
    if chance < 0.6:
        return rnd.choice(EDGES)
    return rnd.randrange(-3, 50) if chance < 0.8 else rnd.getrandbits(64) - 2**63


def odd_text(rnd: random.Random) -> str:
    """Return one of the odd texts, or a long one."""
    return "y" * rnd.choice((32_767, 32_768, 70_000)) if rnd.random() < 0.05 else rnd.choice(TEXTS)


def change_bytes(rnd: random.Random, data: bytes, changes: int = 1) -> bytes:
    """Return a copy with some bytes flipped, replaced, inserted, removed, repeated or cut off."""
    out = bytearray(data)
    for _ in range(changes):
        place = rnd.randrange(len(out) + 1)
        length = rnd.choice((1, 1, 2, 4, 8, 30))
        match rnd.randrange(7):
            case 0 if place < len(out):
                out[place] ^= 1 << rnd.randrange(8)
            case 1:
                piece = rnd.choice(PIECES)
                out[place : place + len(piece)] = piece
            case 2:
                out[place:place] = rnd.choice((rnd.randbytes(length), rnd.choice(PIECES)))
            case 3:
                del out[place : place + length]
            case 4:
                out[place:place] = out[place : place + length] * rnd.choice((1, 2, 9))
            case 5:
                del out[place:]
            case _:
                size = rnd.choice((1, 2, 4, 8))
                number = rnd.choice(EDGES) & (256**size - 1)
                out[place : place + size] = number.to_bytes(size, "big")
    return bytes(out)


def change_json(rnd: random.Random, value: Any, changes: int = 1) -> Any:
    """Return a copy of a JSON value in which some fields have other values or other types, or are missing."""
    out = json.loads(json.dumps(value))
    for _ in range(changes):
        places = list(_places(out))
        if not places:
            return _odd_json(rnd)
        container, key = rnd.choice(places)
        match rnd.randrange(6):
            case 0 if isinstance(container, dict):
                del container[key]
            case 0 | 1 if isinstance(container, list):
                container[key:key] = [container[key]] * rnd.choice((1, 2, 50))
            case 2 if isinstance(container, dict):
                container[odd_text(rnd)] = container[key]
            case _:
                container[key] = _replace(rnd, container[key])
    return out


def _places(value: Any) -> Any:
    """Yield each object or list in a JSON value with each of its keys."""
    if isinstance(value, dict | list):
        for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
            yield value, key
            yield from _places(inner)


def _replace(rnd: random.Random, value: Any) -> Any:
    """Return mostly another value of the same type."""
    if rnd.random() < 0.25:
        return _odd_json(rnd)
    if isinstance(value, bool) or value is None:
        return rnd.choice((True, False, None, 0, ""))
    if isinstance(value, int):
        return odd_number(rnd)
    if isinstance(value, str):
        if value.isdigit() and rnd.random() < 0.5:
            return str(odd_number(rnd))
        return odd_text(rnd) if rnd.random() < 0.6 else value[: rnd.randrange(len(value) + 1)] + rnd.choice(TEXTS)
    return value[:-1] if isinstance(value, list) else {}


def _odd_json(rnd: random.Random) -> Any:
    nested: Any = []
    for _ in range(rnd.choice((1, 100, 900))):
        nested = [nested]
    return rnd.choice(
        (None, True, 0, -1, 1.5, 1e308, "", [], {}, [[]], {"": None}, nested, odd_number(rnd), odd_text(rnd))
    )
