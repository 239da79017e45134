"""Every figure of the course, by name, with the content that its lesson shows.

Tests, the pages without a kernel, and the pictures of the README build their figures from this catalog.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kafkagroups.course.figures.byte_ribbon import BatchRibbon, RecordRibbon
from kafkagroups.course.figures.commit_and_power_cut import CommitAndPowerCut
from kafkagroups.course.figures.compaction import Compaction
from kafkagroups.course.figures.failover import Failover
from kafkagroups.course.figures.figure import Figure
from kafkagroups.course.figures.segment import Segment
from kafkagroups.course.figures.two_maps import TwoMaps
from kafkagroups.course.figures.version_overlay import VersionOverlay
from kafkagroups.course.folders import find_data
from kafkagroups.course.notebook_helpers import read_record

_PROMO = "harbour/4.3.1/__consumer_offsets-37/00000000000000000000.log"


def _read_promo() -> bytes:
    """Return the segment of the partition that contains the group `promo`."""
    return Path(find_data(_PROMO)).read_bytes()


def _make_record_ribbon() -> Figure:
    key, value = read_record(find_data("harbour/4.3.1/__consumer_offsets-9"), 38)
    assert key is not None
    return RecordRibbon(key, value)


def _make_version_overlay() -> Figure:
    """Return the figure with one commit of `billing`, as brokers of three releases stored it."""
    offset_by_kafka = {"1.0.1": 37, "3.9.2": 37, "4.3.1": 38}
    return VersionOverlay(
        *(
            read_record(find_data(f"harbour/{kafka}/__consumer_offsets-9"), offset)
            for kafka, offset in offset_by_kafka.items()
        )
    )


FIGURES: dict[str, Callable[[], Figure]] = {
    "byte-ribbon-record": _make_record_ribbon,
    "byte-ribbon-batch": lambda: BatchRibbon(_read_promo(), 406),
    "commit-and-power-cut": lambda: CommitAndPowerCut("commit 5", "confirm 5", "commit 6", "cache 6", "answer 6"),
    "compaction": Compaction,
    "failover": Failover,
    "two-maps": TwoMaps,
    "segment": lambda: Segment(_read_promo()),
    "version-overlay": _make_version_overlay,
}
"""The keys are the names of files and of tests."""
