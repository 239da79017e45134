"""The tools of the lessons: data, learners' predictions, exercises, brokers, widgets.

A lesson imports this package as `course` and uses the functions and classes in `__all__`. Except for the loading times
of lesson 12, a lesson prints the same text in every run. `check`, `hint` and `solution` never raise an error, so a
wrong answer does not stop the notebook.
"""

from kafkagroups.course.broker import (
    ReadCountingLogs,
    commit_again,
    end_transaction,
    format_offsets,
    start_broker,
    start_follower,
)
from kafkagroups.course.broker_answers import (
    compare_epochs_with_broker,
    compare_with_broker,
    fetch_offsets,
    print_crafted_log,
    read_answered_offsets,
    read_answers,
    read_crafted_lines,
)
from kafkagroups.course.checks import check, hint, solution
from kafkagroups.course.cleaner_passes import (
    abort_transaction,
    compare_cleaned_files,
    grow_replicas,
    list_offset_map_records,
    repeat_cleaner_passes,
    write_log_with_hanging_transaction,
)
from kafkagroups.course.commands import print_first_remedy, run_command
from kafkagroups.course.compared_brokers import BrokerComparison, compare_brokers, delete_while_pending
from kafkagroups.course.deletion_days import find_deletion_day
from kafkagroups.course.figures.byte_ribbon import BatchRibbon, RecordRibbon
from kafkagroups.course.figures.commit_and_power_cut import CommitAndPowerCut
from kafkagroups.course.figures.compaction import Compaction
from kafkagroups.course.figures.epochs import Epochs
from kafkagroups.course.figures.expiry_chart import ExpiryChart
from kafkagroups.course.figures.failover import Failover
from kafkagroups.course.figures.load_tape import LoadTape
from kafkagroups.course.figures.load_times import LoadTimes, measure_seconds, name_engine
from kafkagroups.course.figures.offset_map import OffsetMap
from kafkagroups.course.figures.partition_grid import PartitionGrid
from kafkagroups.course.figures.rebalance_lanes import RebalanceLanes
from kafkagroups.course.figures.segment import Segment
from kafkagroups.course.figures.two_maps import TwoMaps
from kafkagroups.course.figures.version_overlay import VersionOverlay
from kafkagroups.course.group_life import GroupLife
from kafkagroups.course.incident_pages import open_incident, show_worked_solution
from kafkagroups.course.lesson_folders import find_data, link_older_segments, make_scratch_folder
from kafkagroups.course.log_lines import hexdump, read_lines, read_record, read_string
from kafkagroups.course.log_parts import list_part_results, load_described_log, merge_in_random_order
from kafkagroups.course.predictions import fold, reveal
from kafkagroups.course.progress import progress, reset
from kafkagroups.course.protocol_lines import print_protocol_lines
from kafkagroups.course.recordings import play_conversation, read_recording
from kafkagroups.course.rescue_broker import rescue_into_new_broker, show_worked_rescue
from kafkagroups.course.scripts import (
    TWO_CONSUMERS,
    play_script,
    run_duplicate_static_member,
    run_silent_member,
    start_two_vans,
)
from kafkagroups.course.small_logs import copy_failing_partition

__all__ = [
    "TWO_CONSUMERS",
    "BatchRibbon",
    "BrokerComparison",
    "CommitAndPowerCut",
    "Compaction",
    "Epochs",
    "ExpiryChart",
    "Failover",
    "GroupLife",
    "LoadTape",
    "LoadTimes",
    "OffsetMap",
    "PartitionGrid",
    "ReadCountingLogs",
    "RebalanceLanes",
    "RecordRibbon",
    "Segment",
    "TwoMaps",
    "VersionOverlay",
    "abort_transaction",
    "check",
    "commit_again",
    "compare_brokers",
    "compare_cleaned_files",
    "compare_epochs_with_broker",
    "compare_with_broker",
    "copy_failing_partition",
    "delete_while_pending",
    "end_transaction",
    "fetch_offsets",
    "find_data",
    "find_deletion_day",
    "fold",
    "format_offsets",
    "grow_replicas",
    "hexdump",
    "hint",
    "link_older_segments",
    "list_offset_map_records",
    "list_part_results",
    "load_described_log",
    "make_scratch_folder",
    "measure_seconds",
    "merge_in_random_order",
    "name_engine",
    "open_incident",
    "play_conversation",
    "play_script",
    "print_crafted_log",
    "print_first_remedy",
    "print_protocol_lines",
    "progress",
    "read_answered_offsets",
    "read_answers",
    "read_crafted_lines",
    "read_lines",
    "read_record",
    "read_recording",
    "read_string",
    "repeat_cleaner_passes",
    "rescue_into_new_broker",
    "reset",
    "reveal",
    "run_command",
    "run_duplicate_static_member",
    "run_silent_member",
    "show_worked_rescue",
    "show_worked_solution",
    "solution",
    "start_broker",
    "start_follower",
    "start_two_vans",
    "write_log_with_hanging_transaction",
]
