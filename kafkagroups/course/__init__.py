"""What the lessons need beside the package: data, predictions, checks of exercises, things to look at.

Everything prints short, deterministic text and never raises at a learner: an exercise that goes wrong is told so.
"""

from kafkagroups.course.checks import check, hint, provided, solution
from kafkagroups.course.lines import lines, lines_after_cleaning
from kafkagroups.course.loader import Loader
from kafkagroups.course.pages import beside, confirm, data, fetched, hexdump, record_bytes
from kafkagroups.course.widgets import BatchExplorer, ByteBreaker, PartitionHistogram, RecordExplorer

__all__ = [
    "BatchExplorer",
    "ByteBreaker",
    "Loader",
    "PartitionHistogram",
    "RecordExplorer",
    "beside",
    "check",
    "confirm",
    "data",
    "fetched",
    "hexdump",
    "hint",
    "lines",
    "lines_after_cleaning",
    "provided",
    "record_bytes",
    "solution",
]
