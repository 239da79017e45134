"""Every figure of the course, by name, with the content that its lesson shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kafkagroups.course.figures.byte_ribbon import RecordRibbon
from kafkagroups.course.figures.commit_and_power_cut import CommitAndPowerCut
from kafkagroups.course.figures.compaction import Compaction
from kafkagroups.course.figures.epochs import Epochs
from kafkagroups.course.figures.expiry_chart import ExpiryChart
from kafkagroups.course.figures.failover import Failover
from kafkagroups.course.figures.figure import Figure
from kafkagroups.course.figures.load_tape import LoadTape
from kafkagroups.course.figures.offset_map import OffsetMap
from kafkagroups.course.figures.partition_grid import PartitionGrid
from kafkagroups.course.figures.rebalance_lanes import RebalanceLanes
from kafkagroups.course.figures.segment import Segment
from kafkagroups.course.figures.two_maps import TwoMaps
from kafkagroups.course.figures.version_overlay import VersionOverlay
from kafkagroups.course.lesson_folders import find_data
from kafkagroups.course.log_lines import read_record

_PROMO = "harbour/4.3.1/__consumer_offsets-37/00000000000000000000.log"


def _make_record_ribbon() -> Figure:
    key, value = read_record(find_data("harbour/4.3.1/__consumer_offsets-9"), 38)
    assert key is not None
    return RecordRibbon(key, value)


def _make_partition_grid() -> Figure:
    services = ["billing", "shipping", "mailer", "search", "ads", "stock", "login", "audit", "reports", "invoices"]
    groups = [f"{name}-{stage}-{part}" for name in services for stage in ("dev", "test", "prod") for part in range(4)]
    shop = ["billing", "fraud-check", "shipping", "mailer", "café-☕", "stock-audit", "promo", "dashboard"]
    return PartitionGrid(groups, shop)


FIGURES: dict[str, Callable[[], Figure]] = {
    "byte-ribbon-record": _make_record_ribbon,
    "commit-and-power-cut": CommitAndPowerCut,
    "compaction": Compaction,
    "epochs": lambda: Epochs(find_data("harbour/4.3.1/__consumer_offsets-24"), "loyalty"),
    "expiry-chart": ExpiryChart,
    "failover": Failover,
    "load-tape": LoadTape,
    "offset-map": OffsetMap,
    "partition-grid": _make_partition_grid,
    "rebalance-lanes": RebalanceLanes,
    "two-maps": TwoMaps,
    "segment": lambda: Segment(Path(find_data(_PROMO)).read_bytes()[:987]),
    "version-overlay": VersionOverlay,
}
"""The keys are the names of files and of tests."""
