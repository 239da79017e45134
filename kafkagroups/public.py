"""The public names of the package: those that this module imports, when one of them is used first."""

from kafkagroups.api import (
    apply_rescue,
    check,
    compact,
    compare_replicas,
    diff,
    explain,
    load,
    plan_rescue,
    record_table,
    report,
    scan,
    stats,
    timeline,
)
from kafkagroups.errors import ApiError, Deviation, InvalidLog, InvalidRecord, KafkagroupsError, UsageError
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.loading.groups import Groups
from kafkagroups.log.cleaner import CleanerConfig
from kafkagroups.log.folders import open_log
from kafkagroups.log.segment_file import partition_for
from kafkagroups.records.consumer_protocol import decode_assignment, decode_subscription
from kafkagroups.records.record_json import from_json, to_json
from kafkagroups.records.releases import dialect
from kafkagroups.records.serde import Record, encode
from kafkagroups.records.spans import Span, annotate, decode, deviations
from kafkagroups.records.written_versions import value_version
from kafkagroups.repair.edit import append, cut, edit, roll
from kafkagroups.topic import Topic
