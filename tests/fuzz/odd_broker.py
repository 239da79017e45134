"""A broker on loopback whose answers are partly wrong: odd numbers, missing elements, changed bytes, silence."""

import random
import struct
from contextlib import ExitStack
from typing import Any

from tests.fuzz.odd_values import change_bytes, odd_number, odd_text
from tests.repair.fake_broker import SILENT, FakeBroker


class OddBroker(FakeBroker):
    """A broker that has one log in every partition. `oddness` is how often an answer is wrong, from 0 to 1."""

    def __init__(self, rnd: random.Random, log: bytes, end_offset: int, oddness: float) -> None:
        super().__init__(log, end_offset, rnd.choice((1, 1, 2, 3)))
        self.rnd = rnd
        self.oddness = oddness
        self.stack = ExitStack()
        self.bootstrap = self.stack.enter_context(self.running())

    def close(self) -> None:
        self.stack.close()

    def is_odd(self, share: float) -> bool:
        return self.rnd.random() < self.oddness * share

    def answer(self, request: Any) -> Any:
        response = super().answer(request)
        if self.is_odd(0.03):
            return SILENT
        if self.is_odd(0.03):
            raise ConnectionError  # The connection is closed.
        self.disturb(response)
        return response

    def disturb(self, response: Any) -> None:
        """Change numbers, texts, bytes and arrays of a response. A number that does not fit ends the connection."""
        for name in response.to_dict():
            value = getattr(response, name)
            if isinstance(value, list):
                for each in value:
                    if hasattr(each, "to_dict"):
                        self.disturb(each)
            if not self.is_odd(1 / 8):
                continue
            if isinstance(value, list):
                setattr(response, name, self.rnd.choice(([], value * 2, value[:1])))
            elif isinstance(value, int):
                bits = self.rnd.choice((8, 15, 31, 63))
                setattr(response, name, self.rnd.choice((-1, 1)) * (odd_number(self.rnd) % 2**bits))
            elif isinstance(value, str):
                setattr(response, name, odd_text(self.rnd)[:1000])
            elif isinstance(value, bytes):
                setattr(response, name, change_bytes(self.rnd, value))

    def frame(self, response: Any, version: int, correlation_id: int) -> bytes:
        data = super().frame(response, version, correlation_id + self.is_odd(0.03))
        if self.is_odd(0.1):
            data = data[:8] + change_bytes(self.rnd, data[8:])
        if self.is_odd(0.03):
            data = struct.pack(">i", odd_number(self.rnd) % 2**31) + data[4:]
        return data
