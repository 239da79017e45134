"""Kafka's `__consumer_offsets` topic: read records, write records, load a log as a broker does.

One record:

- `decode` and `encode` convert a record's bytes to a `Record` and back.
- `to_json` and `from_json` convert the `Record` to Kafka's JSON and back.
- `annotate` explains every byte, and `deviations` finds encodings that Kafka reads but never writes.
- `decode_subscription` and `decode_assignment` decode what a classic consumer group stores for a member.
- `dialect` returns the rules by which a Kafka version reads records, and `value_version` the value layout that it
  writes.

One log:

- `Topic` holds a path and the rules by which it is read; the functions below are its methods, too.
- `open_log` reads the segments of a partition batch by batch.
- `load` returns the groups that a broker's coordinator has after reading the log.
- `explain` shows which records led to the result of `load`.
- `timeline` shows the history of a group as events.
- `diff` compares two results of `load`, and `compare_replicas` two replicas of a partition.
- `stats` shows what makes a log large.
- `check` says whether the next failover, or a broker after an upgrade, loads the log.
- `report` writes one HTML page about logs.
- `compact` writes the segments that Kafka's log cleaner would leave after one pass.
- `plan_rescue` lists the groups and offsets to restore in another cluster, and `apply_rescue` commits them there.
- `edit` changes a copy of a log in several steps. `append`, `roll` and `cut` are single steps.

`partition_for` returns the partition that stores a group.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# `interrupts` is the first import, so that Ctrl-C during the other imports prints no traceback.
from kafkagroups import interrupts  # noqa: F401

if TYPE_CHECKING:
    from kafkagroups.public import *
else:

    def __getattr__(name: str) -> Any:
        """Import the public names when one of them is used first: a command needs few of them, and its help none."""
        if not name.startswith("__") or name == "__all__":
            public = import_module("kafkagroups.public")
            names = [each for each in vars(public) if not each.startswith("_")]
            globals().update({each: getattr(public, each) for each in names}, __all__=names)
        if name not in globals():
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return globals()[name]

    def __dir__() -> list[str]:
        return list(__getattr__("__all__"))
