"""A folder of partitions that grows byte by byte, as a broker writes it, and what stands in it in the end."""

import random

from kafkagroups.errors import InvalidLog
from kafkagroups.log.batches import read_batches
from kafkagroups.log.segment_file import segment_name
from tests.kernels.random_logs import random_log


class Growing:
    """Some partitions of random logs in segments; `grow` writes on, cutting anywhere; `batches` has all in order."""

    def __init__(self, folder, seed, partitions=3):
        self.folder, self.random = folder, random.Random(seed)
        self.waiting, self.batches = {}, []
        for partition in self.random.sample(range(50), partitions):
            data = _undamaged(self.random)
            batches = list(read_batches(data))
            self.batches += [
                (partition, each.base_offset, each.next_offset, data[each.position : each.position + each.size])
                for each in batches
            ]
            self.waiting[partition] = self._segments(partition, data, batches)

    def _segments(self, partition, data, batches):
        """[path, bytes, how many are written], in order; a new segment begins here and there."""
        rolls = [each for each in batches if each is batches[0] or self.random.random() < 0.2]
        ends = [each.position for each in rolls[1:]] + [batches[-1].position + batches[-1].size]
        place = self.folder / f"__consumer_offsets-{partition}"
        return [
            [place / segment_name(each.base_offset), data[each.position : end], 0]
            for each, end in zip(rolls, ends, strict=True)
        ]

    def grow(self, most=2000):
        """Writes up to so many bytes more of one partition; now and then with the zeros of a preallocated file."""
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
    """A random log without damage, with some batches."""
    while True:
        data = random_log(rnd.randrange(10**9))
        try:
            batches = list(read_batches(data))
        except InvalidLog:
            continue
        bases = [batch.base_offset for batch in batches]
        if len(batches) > 3 and bases == sorted(bases):  # no checksum covers a base offset
            return data[: batches[-1].position + batches[-1].size]
