"""The tools of the lessons: data, learners' predictions, exercises, brokers, widgets.

A lesson imports this package as `course` and uses these functions and classes. Except for the loading times of lesson
12, a lesson prints the same text in every run. `check`, `hint` and `solution` never raise an error, so a wrong answer
does not stop the notebook.
"""

from kafkagroups.course.broker import (
    ReadCountingLogs,
    commit_again,
    continue_consumer_group,
    end_transaction,
    start_broker,
    start_follower,
)
from kafkagroups.course.broker_answers import (
    compare_with_broker,
    fetch_offsets,
    format_offsets,
    play_conversation,
    read_answers,
    read_crafted_lines,
)
from kafkagroups.course.checks import check, hint, progress, reset, solution
from kafkagroups.course.cleaner_passes import (
    abort_transaction,
    grow_replicas,
    list_offset_map_records,
    write_log_with_hanging_transaction,
)
from kafkagroups.course.compared_brokers import compare_brokers, delete_while_pending
from kafkagroups.course.exercises.incidents.incident import open_incident, show_worked_solution
from kafkagroups.course.figures.byte_ribbon import RecordRibbon
from kafkagroups.course.figures.commit_and_power_cut import CommitAndPowerCut
from kafkagroups.course.figures.compaction import Compaction
from kafkagroups.course.figures.epochs import Epochs
from kafkagroups.course.figures.expiry_chart import ExpiryChart, find_deletion_day
from kafkagroups.course.figures.failover import Failover
from kafkagroups.course.figures.load_tape import LoadTape
from kafkagroups.course.figures.load_times import LoadTimes, name_engine
from kafkagroups.course.figures.offset_map import OffsetMap
from kafkagroups.course.figures.partition_grid import PartitionGrid
from kafkagroups.course.figures.rebalance_lanes import RebalanceLanes
from kafkagroups.course.figures.segment import Segment
from kafkagroups.course.figures.two_maps import TwoMaps
from kafkagroups.course.figures.version_overlay import VersionOverlay
from kafkagroups.course.group_life import (
    TWO_CONSUMERS,
    GroupLife,
    play_script,
    run_duplicate_static_member,
    run_silent_member,
    start_two_vans,
)
from kafkagroups.course.lesson_folders import find_data, link_older_segments, make_scratch_folder, run_command
from kafkagroups.course.log_lines import hexdump, print_protocol_lines, read_lines, read_record, read_string
from kafkagroups.course.predictions import fold, reveal
from kafkagroups.course.rescue_broker import rescue_into_new_broker, show_worked_rescue
from kafkagroups.course.small_logs import copy_failing_partition
