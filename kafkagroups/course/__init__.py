"""The lessons' tools: data, predictions, exercises, simulated brokers, widgets.

A lesson imports `course` and calls the names listed here. They print short text that is the same in every run, apart
from the loading times of lesson 10. `check`, `hint` and `solution` never raise an error.
"""

from kafkagroups.course.broker import CountedLogs, answered, commit_again, coordinator, crashed, written
from kafkagroups.course.byte_breaker import ByteBreaker
from kafkagroups.course.byte_explorers import BatchExplorer, RecordExplorer
from kafkagroups.course.checks import check, ensure_correct, hint, solution
from kafkagroups.course.cleaner_passes import (
    abort_transaction,
    list_countable_records,
    repeat_real_passes,
    write_pinned_log,
)
from kafkagroups.course.compaction_slider import CompactionSlider
from kafkagroups.course.conversations import commits, conversation, fetches
from kafkagroups.course.deletions import delete_while_pending
from kafkagroups.course.expiry_clock import ExpiryClock
from kafkagroups.course.fetch_table import FetchTable
from kafkagroups.course.flight import Flight, look
from kafkagroups.course.folders import find_data, link_older_segments, make_scratch_folder
from kafkagroups.course.growth import grow_replicas
from kafkagroups.course.incidents import run_copied_van, run_weekend
from kafkagroups.course.life import Life
from kafkagroups.course.life_stepper import LifeStepper
from kafkagroups.course.load_stepper import LoadStepper
from kafkagroups.course.load_times import BenchmarkCurves, LoadTimes, measure_seconds
from kafkagroups.course.log_lines import read_cleaned_lines, read_lines
from kafkagroups.course.notebook_helpers import (
    compare,
    confirm,
    fetch_offsets,
    hexdump,
    print_server_log,
    read_record,
)
from kafkagroups.course.partition_histogram import PartitionHistogram
from kafkagroups.course.recorded import play
from kafkagroups.course.small_logs import load_small_log, write_small_log
from kafkagroups.course.what_if import TWO_CONSUMERS, crash_table, played, two_kafkas

__all__ = [
    "TWO_CONSUMERS",
    "BatchExplorer",
    "BenchmarkCurves",
    "ByteBreaker",
    "CompactionSlider",
    "CountedLogs",
    "ExpiryClock",
    "FetchTable",
    "Flight",
    "Life",
    "LifeStepper",
    "LoadStepper",
    "LoadTimes",
    "PartitionHistogram",
    "RecordExplorer",
    "abort_transaction",
    "answered",
    "check",
    "commit_again",
    "commits",
    "compare",
    "confirm",
    "conversation",
    "coordinator",
    "crash_table",
    "crashed",
    "delete_while_pending",
    "ensure_correct",
    "fetch_offsets",
    "fetches",
    "find_data",
    "grow_replicas",
    "hexdump",
    "hint",
    "link_older_segments",
    "list_countable_records",
    "load_small_log",
    "look",
    "make_scratch_folder",
    "measure_seconds",
    "play",
    "played",
    "print_server_log",
    "read_cleaned_lines",
    "read_lines",
    "read_record",
    "repeat_real_passes",
    "run_copied_van",
    "run_weekend",
    "solution",
    "two_kafkas",
    "write_pinned_log",
    "write_small_log",
    "written",
]
