"""What Kafka keeps in `__consumer_offsets`: read it, write it, load it as a broker does.

`decode` and `encode` turn one record's bytes into a dataclass and back, `to_json` and `from_json` into Kafka's JSON.
`open_log` reads a partition's segments batch by batch, `load` gives the groups that a broker's coordinator would know
after reading them, `explain` which record made them so, `diff` where two such states differ, `stats` why a log is so
big; `compact` writes what its log cleaner would leave. `partition_for` says where a group lives. The
rooms beneath: `records` (one record), `log` (one partition on disk), `groups` (what the records mean).
"""

from kafkagroups.anatomy.annotate import annotate, decode, deviations
from kafkagroups.anatomy.spans import Span
from kafkagroups.api import compact, diff, explain, load, stats
from kafkagroups.errors import ApiError, Deviation, InvalidLog, InvalidRecord, KafkagroupsError, UsageError
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.loading.groups import Groups
from kafkagroups.log.partitioning import partition_for
from kafkagroups.log.segments import open_log
from kafkagroups.records.consumer_protocol import decode_assignment, decode_subscription
from kafkagroups.records.record_json import from_json, to_json
from kafkagroups.records.serde import Record, encode
from kafkagroups.records.versions import dialect, value_version

__all__ = [
    "ApiError",
    "Deviation",
    "Groups",
    "InvalidLog",
    "InvalidRecord",
    "KafkagroupsError",
    "Record",
    "Span",
    "TopicPartition",
    "UsageError",
    "annotate",
    "compact",
    "decode",
    "decode_assignment",
    "decode_subscription",
    "deviations",
    "dialect",
    "diff",
    "encode",
    "explain",
    "from_json",
    "load",
    "open_log",
    "partition_for",
    "stats",
    "to_json",
    "value_version",
]
