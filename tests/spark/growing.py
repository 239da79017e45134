"""A folder of partitions that grows byte by byte, as a broker writes it: random logs with their batches, or a copy."""

import random
import time

from kafkagroups import InvalidLog
from tests.engine.random_logs import random_log
from tests.handmade import read_batches, segment_name


class Growing:
    """Random logs in some partitions. `grow` appends bytes and stops anywhere; `batches` has every batch in order."""

    def __init__(self, folder, seed, partitions=3):
        self.folder = folder
        self.random = random.Random(seed)
        self.waiting = {}
        self.batches = []
        for partition in self.random.sample(range(50), partitions):
            data = _undamaged(self.random)
            batches = list(read_batches(data))
            self.batches += [
                (partition, each.base_offset, each.next_offset, data[each.position : each.position + each.size])
                for each in batches
            ]
            self.waiting[partition] = self._segments(partition, data, batches)

    def _segments(self, partition, data, batches):
        """Return [path, bytes, number of written bytes] of each segment, in order; segments begin at random batches."""
        rolls = [each for each in batches if each is batches[0] or self.random.random() < 0.2]
        ends = [each.position for each in rolls[1:]] + [batches[-1].position + batches[-1].size]
        place = self.folder / f"__consumer_offsets-{partition}"
        return [
            [place / segment_name(each.base_offset), data[each.position : end], 0]
            for each, end in zip(rolls, ends, strict=True)
        ]

    def grow(self, most=2000):
        """Append at most `most` bytes to one partition, sometimes with the zeros of a preallocated file."""
        if not (open_ones := [partition for partition, segments in self.waiting.items() if segments]):
            return False
        partition = self.random.choice(open_ones)
        left = self.random.randrange(1, most)
        while left and self.waiting[partition]:
            path, data, written = self.waiting[partition][0]
            path.parent.mkdir(parents=True, exist_ok=True)
            end = min(len(data), written + left)
            zeros = bytes(self.random.choice((0, 0, 100)))
            path.write_bytes(data[:end] + zeros)
            left -= end - written
            self.waiting[partition][0][2] = end
            if end == len(data):
                self.waiting[partition].pop(0)
        return True

    def finish(self):
        while self.grow():
            pass


def _undamaged(rnd):
    """Return a random log without damage that has several batches."""
    while True:
        data = random_log(rnd.randrange(10**9))
        try:
            batches = list(read_batches(data))
        except InvalidLog:
            continue
        bases = [batch.base_offset for batch in batches]
        if len(batches) > 3 and bases == sorted(bases):  # no checksum covers a base offset
            return data[: batches[-1].position + batches[-1].size]


def feed(whole, topic, seed, seconds):
    """Write the topic in small pieces, as brokers do: segment after segment, stopping at any byte."""
    rnd = random.Random(seed)
    left = {log.name: sorted(log.glob("*.log")) for log in whole.iterdir()}
    total = sum(file.stat().st_size for files in left.values() for file in files)
    while left:
        name = rnd.choice(sorted(left))
        source = left[name][0]
        place = topic / name / left[name][0].name
        place.parent.mkdir(exist_ok=True)
        written = place.stat().st_size if place.exists() else 0
        more = rnd.choice((1, 60, 500, 4000, 20_000))
        with open(place, "ab") as file:
            file.write(source.read_bytes()[written : written + more])
        if written + more >= source.stat().st_size:
            del left[name][0]
            if not left[name]:
                del left[name]
        time.sleep(seconds * more / total)
