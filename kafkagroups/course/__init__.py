"""The lessons' tools: data, predictions, exercises, simulated brokers, widgets.

A lesson imports `course` and calls the names listed here. They print short text that is the same in every run, apart
from the loading times of lesson 10. `check`, `hint` and `solution` never raise an error.
"""

from kafkagroups.course.broker import (
    CountedLogs,
    commit_again,
    format_offsets,
    read_partition_lines,
    restart_after_crash,
    start_broker,
)
from kafkagroups.course.byte_breaker import ByteBreaker
from kafkagroups.course.byte_explorers import BatchExplorer, RecordExplorer
from kafkagroups.course.checks import check, ensure_correct, hint, solution
from kafkagroups.course.cleaner_passes import (
    abort_transaction,
    list_countable_records,
    repeat_real_passes,
    write_pinned_log,
)
from kafkagroups.course.commit_places import print_places
from kafkagroups.course.compaction_slider import CompactionSlider
from kafkagroups.course.conversations import read_commits, read_exchanges, read_fetches
from kafkagroups.course.deletions import delete_while_pending
from kafkagroups.course.expiry_clock import ExpiryClock
from kafkagroups.course.fetch_table import FetchTable
from kafkagroups.course.flight import Flight
from kafkagroups.course.folders import find_data, link_older_segments, make_scratch_folder
from kafkagroups.course.growth import grow_replicas
from kafkagroups.course.incidents import run_copied_van, run_weekend
from kafkagroups.course.life import Life
from kafkagroups.course.life_stepper import LifeStepper
from kafkagroups.course.life_tables import compare_kafkas, print_crash_table
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
from kafkagroups.course.recorded import play_conversation
from kafkagroups.course.small_logs import load_small_log, write_small_log
from kafkagroups.course.what_if import TWO_CONSUMERS, play_acts

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
    "check",
    "commit_again",
    "compare",
    "compare_kafkas",
    "confirm",
    "delete_while_pending",
    "ensure_correct",
    "fetch_offsets",
    "find_data",
    "format_offsets",
    "grow_replicas",
    "hexdump",
    "hint",
    "link_older_segments",
    "list_countable_records",
    "load_small_log",
    "make_scratch_folder",
    "measure_seconds",
    "play_acts",
    "play_conversation",
    "print_crash_table",
    "print_places",
    "print_server_log",
    "read_cleaned_lines",
    "read_commits",
    "read_exchanges",
    "read_fetches",
    "read_lines",
    "read_partition_lines",
    "read_record",
    "repeat_real_passes",
    "restart_after_crash",
    "run_copied_van",
    "run_weekend",
    "solution",
    "start_broker",
    "write_pinned_log",
    "write_small_log",
]
