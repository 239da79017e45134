"""What the lessons need beside the package: data, predictions, checks of exercises, things to look at.

Everything prints short, deterministic text and never raises at a learner: an exercise that goes wrong is told so.
"""

from kafkagroups.course.checks import check, hint, provided, solution
from kafkagroups.course.pages import beside, confirm, data, hexdump, record_bytes
from kafkagroups.course.widgets import BatchExplorer, ByteBreaker, PartitionHistogram, RecordExplorer

__all__ = [
    "BatchExplorer",
    "ByteBreaker",
    "PartitionHistogram",
    "RecordExplorer",
    "beside",
    "check",
    "confirm",
    "data",
    "hexdump",
    "hint",
    "provided",
    "record_bytes",
    "solution",
]
