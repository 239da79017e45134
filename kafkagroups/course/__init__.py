"""What the lessons need beside the package: data, predictions, checks of exercises, things to look at.

Everything prints short, deterministic text and never raises at a learner: an exercise that goes wrong is told so.
"""

from kafkagroups.course.broker import CountedLogs, answered, commit_again, coordinator, crashed, written
from kafkagroups.course.checks import check, hint, provided, solution
from kafkagroups.course.compaction import CompactionSlider
from kafkagroups.course.conversations import commits, conversation, fetches
from kafkagroups.course.deletions import deleted_while_pending, over_the_weekend
from kafkagroups.course.expiry import ExpiryClock
from kafkagroups.course.fetch_table import FetchTable
from kafkagroups.course.flight import Flight, look
from kafkagroups.course.group_life import copied_van
from kafkagroups.course.life import Life
from kafkagroups.course.life_stepper import LifeStepper
from kafkagroups.course.lines import lines, lines_after_cleaning
from kafkagroups.course.loader import Loader
from kafkagroups.course.pages import beside, confirm, data, fetched, hexdump, record_bytes, server_log
from kafkagroups.course.race import Curves, Race, seconds
from kafkagroups.course.recorded import play
from kafkagroups.course.small_logs import (
    abort,
    answers,
    counted,
    grow,
    pinned_log,
    real_passes,
    scratch,
    small_log,
    without_newest_segments,
)
from kafkagroups.course.what_if import TWO_CONSUMERS, crash_table, played, two_kafkas
from kafkagroups.course.widgets import BatchExplorer, ByteBreaker, PartitionHistogram, RecordExplorer

__all__ = [
    "TWO_CONSUMERS",
    "BatchExplorer",
    "ByteBreaker",
    "CompactionSlider",
    "CountedLogs",
    "Curves",
    "ExpiryClock",
    "FetchTable",
    "Flight",
    "Life",
    "LifeStepper",
    "Loader",
    "PartitionHistogram",
    "Race",
    "RecordExplorer",
    "abort",
    "answered",
    "answers",
    "beside",
    "check",
    "commit_again",
    "commits",
    "confirm",
    "conversation",
    "coordinator",
    "copied_van",
    "counted",
    "crash_table",
    "crashed",
    "data",
    "deleted_while_pending",
    "fetched",
    "fetches",
    "grow",
    "hexdump",
    "hint",
    "lines",
    "lines_after_cleaning",
    "look",
    "over_the_weekend",
    "pinned_log",
    "play",
    "played",
    "provided",
    "real_passes",
    "record_bytes",
    "scratch",
    "seconds",
    "server_log",
    "small_log",
    "solution",
    "two_kafkas",
    "without_newest_segments",
    "written",
]
