"""Compare loads of random sequences with a release's own coordinator.

`python -m tests.releases.compare RELEASE COUNT [FIRST_SEED [ENGINE]]` prints the differences, the commonest first.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import kafkagroups as kg
from tests.releases.kafka import Coordinator
from tests.releases.sequences import Event, encode_log, random_sequence
from tests.releases.views import kafka_view, package_view

ENGINES = ("python", "auto")


class Difference(NamedTuple):
    """A sequence of records for which the package and Kafka disagree."""

    seed: int
    kafka: Any
    package: Any
    message: str | None
    """Why Kafka's load fails."""

    @property
    def cause(self) -> str:
        """The first thing that differs, short enough to count."""
        if self.kafka["failure"] != self.package["failure"]:
            return f"fails: {self.message}" if self.kafka["failure"] is not None else "must not fail"
        return _first_difference(self.kafka, self.package)


def _first_difference(kafka: Any, package: Any, path: str = "") -> str:
    if isinstance(kafka, dict) and isinstance(package, dict):
        for name in [*kafka, *package]:
            if kafka.get(name, "absent") != package.get(name, "absent"):
                return _first_difference(kafka.get(name, "absent"), package.get(name, "absent"), f"{path}/{name}")
    return f"{path}: Kafka {kafka}, package {package}"


def compare(release: str, seeds: Sequence[int], engine: str | None = None) -> Iterator[Difference]:
    """Yield the differences between one release's coordinator and this package.

    Without an engine, the readable engine loads every second sequence, and the native one, if there is one, the others.
    """
    sequences = {seed: random_sequence(seed) for seed in seeds}
    with Coordinator(release) as coordinator, tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "__consumer_offsets-0"
        folder.mkdir()
        for seed, answer in zip(seeds, coordinator.load_all(sequences.values()), strict=True):
            kafka = kafka_view(answer, release)
            package = package_view(load(folder, sequences[seed], release, engine or ENGINES[seed % 2]))
            if kafka != package:
                message = answer["failure"]["message"] if answer["failure"] else None
                yield Difference(seed, kafka, package, message)


def load(folder: Path, events: list[Event], release: str, engine: str) -> Any:
    """Return what this package loads from the events."""
    (folder / f"{0:020}.log").write_bytes(encode_log(events))
    return kg.load(folder, "new", release, engine=engine)


def main(release: str, count: str, first: str = "0", engine: str | None = None) -> None:
    seeds = range(int(first), int(first) + int(count))
    causes: dict[str, list[Difference]] = {}
    for difference in compare(release, seeds, engine):
        causes.setdefault(difference.cause, []).append(difference)
    for cause, found in sorted(causes.items(), key=lambda item: -len(item[1])):
        print(f"{len(found):6} {cause}  seeds {[difference.seed for difference in found[:4]]}")
    print(f"Kafka {release}: {sum(map(len, causes.values()))} differences in {count} sequences")


if __name__ == "__main__":
    main(*sys.argv[1:])
