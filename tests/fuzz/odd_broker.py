"""A broker on loopback whose answers are partly wrong: odd numbers, missing topics, changed bytes, silence.

It speaks the oldest versions that `pull` accepts, so that the answers can be written by hand: ApiVersions 0, Metadata
4, ListOffsets 1 and Fetch 4.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from contextlib import suppress

from tests.fuzz.odd_values import change_bytes, odd_number, odd_text

TOPIC = "__consumer_offsets"
FETCH = 1
LIST_OFFSETS = 2
METADATA = 3
API_VERSIONS = 18
VERSIONS = {FETCH: 4, LIST_OFFSETS: 1, METADATA: 4, API_VERSIONS: 0}
EARLIEST = -2
SILENT_SECONDS = 5


class OddBroker:
    """A broker that has one log in every partition. `oddness` is how often an answer is wrong, from 0 to 1."""

    def __init__(self, rnd: random.Random, log: bytes, end_offset: int, oddness: float) -> None:
        self.rnd = rnd
        self.log = log
        self.end_offset = end_offset
        self.oddness = oddness
        self.partitions = rnd.choice((1, 1, 2, 3))
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.is_closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop accepting connections."""
        self.is_closed = True
        self.server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.server.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError, struct.error):
            while not self.is_closed:
                size = _receive(connection, 4)
                request = _receive(connection, struct.unpack(">i", size)[0])
                answer = self._answer(request)
                if answer is None:
                    return
                connection.sendall(answer)

    def _answer(self, request: bytes) -> bytes | None:
        """Return the answer with its length in front. None: close the connection."""
        api, version, correlation_id, name_length = struct.unpack_from(">hhih", request)
        body = request[10 + max(name_length, 0) :]
        if api == API_VERSIONS:
            numbers = [(key, 0 if key == API_VERSIONS else low, low) for key, low in VERSIONS.items()]
            content = self._number(0, "h") + _array([struct.pack(">hhh", *row) for row in numbers])
            # A client asks with its newest version first. Version 0 with this error tells it to ask again.
            content = content if version == 0 else struct.pack(">h", 35) + _array([])
        elif api == METADATA:
            content = self._metadata()
        elif api == LIST_OFFSETS:
            content = self._list_offsets(body)
        else:
            content = self._fetch(body)
        chance = self.rnd.random() / self.oddness if self.oddness else 1
        if chance < 0.1:
            content = change_bytes(self.rnd, content)
        elif chance < 0.13:
            correlation_id += 1
        elif chance < 0.16:
            return None
        elif chance < 0.19:
            time.sleep(SILENT_SECONDS)
        size = len(content) + 4
        if 0.2 < chance < 0.23:
            size = odd_number(self.rnd) % 2**31
        return struct.pack(">ii", size, correlation_id) + content

    def _number(self, right: int, code: str) -> bytes:
        """Return a number's bytes. Sometimes it is another number."""
        size = struct.calcsize(">" + code)
        number = odd_number(self.rnd) if self.rnd.random() < self.oddness / 8 else right
        return (number & (256**size - 1)).to_bytes(size, "big")

    def _text(self, right: str) -> bytes:
        text = odd_text(self.rnd)[:1000] if self.rnd.random() < self.oddness / 8 else right
        data = text.encode("utf-8", "surrogatepass")
        return struct.pack(">h", len(data)) + data

    def _array(self, elements: list[bytes]) -> bytes:
        """Return an array. Sometimes elements are missing or repeated."""
        if self.rnd.random() < self.oddness / 8:
            elements = self.rnd.choice(([], elements * 2, elements[:1]))
        return _array(elements)

    def _throttle(self) -> bytes:
        return self._number(0, "i")

    def _metadata(self) -> bytes:
        broker = self._number(1, "i") + self._text("127.0.0.1") + self._number(self.port, "i") + struct.pack(">h", -1)
        partitions = [
            self._number(0, "h")
            + self._number(number, "i")
            + self._number(1, "i")
            + _array([struct.pack(">i", 1)])
            + _array([struct.pack(">i", 1)])
            for number in range(self.partitions)
        ]
        topic = self._number(0, "h") + self._text(TOPIC) + b"\1" + self._array(partitions)
        cluster = self._text("cluster") + self._number(1, "i")
        return self._throttle() + self._array([broker]) + cluster + self._array([topic])

    def _list_offsets(self, body: bytes) -> bytes:
        """Answer ListOffsets. All partitions of a request ask for the same time."""
        partitions = []
        position = 4 + 4 + 2 + len(TOPIC)  # the replica id, the number of topics, the name of the topic
        for number, timestamp in struct.iter_unpack(">iq", body[position + 4 :]):
            offset = 0 if timestamp == EARLIEST else self.end_offset
            partitions.append(
                self._number(number, "i") + self._number(0, "h") + self._number(-1, "q") + self._number(offset, "q")
            )
        return self._array([self._text(TOPIC) + self._array(partitions)])

    def _fetch(self, body: bytes) -> bytes:
        position = 4 + 4 + 4 + 4 + 1 + 4 + 2 + len(TOPIC)
        partitions = []
        for number, offset, _ in struct.iter_unpack(">iqi", body[position + 4 :]):
            records = self._records(offset)
            partitions.append(
                self._number(number, "i")
                + self._number(0, "h")
                + self._number(self.end_offset, "q")
                + self._number(self.end_offset, "q")
                + struct.pack(">i", -1)
                + self._number(len(records), "i")
                + records
            )
        return self._throttle() + self._array([self._text(TOPIC) + self._array(partitions)])

    def _records(self, offset: int) -> bytes:
        """Return the log from the batch that contains the offset."""
        position = 0
        while position + 27 <= len(self.log):
            base, size = struct.unpack_from(">qi", self.log, position)
            if base + struct.unpack_from(">i", self.log, position + 23)[0] >= offset or size <= 0:
                break
            position += 12 + size
        records = self.log[position:]
        return change_bytes(self.rnd, records) if self.rnd.random() < self.oddness / 4 else records


def _array(elements: list[bytes]) -> bytes:
    return struct.pack(">i", len(elements)) + b"".join(elements)


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise OSError("the client has closed the connection")
        data += part
    return data
