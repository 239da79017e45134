"""The command `compact`."""

from __future__ import annotations

import argparse
from dataclasses import asdict, fields
from typing import Any

from kafkagroups.cli import answers
from kafkagroups.cli.output import print_line, print_table, print_text, progress_bar
from kafkagroups.groups.replay import describe_rest
from kafkagroups.log.cleaner import DEFAULT_CAPACITY, CleanerConfig, Compaction
from kafkagroups.topic import Topic

ARGUMENTS = f"""
PATH  a partition directory
--out
--now-ms N  the time of the pass in ms since 1970 (default: the newest timestamp in the log)
--delete-retention-ms N  how long tombstones and markers stay after their first pass, in ms (default: 86400000, a day)
--first-dirty N  the first offset that no earlier pass has cleaned (default, or if N is outside the log: its start)
--first-uncleanable N  the pass stops at this offset's segment (default: the active or the last stable one, the earlier)
--segment-bytes N  the largest size of a merged segment in bytes (default: 104857600)
--map-entries N  the number of keys that fit in the offset map (default: {DEFAULT_CAPACITY}, as in a broker)
--producer-expiration-ms N  the time in ms after which an idle producer expires (default: 86400000, one day; -1: never)
--max-decompressed-message-bytes N  the setting max.decompressed.message.bytes of 4.2.2 and 4.4.0 (default: 2 GB)
--engine auto|python|compiled=auto  changes nothing: there is one cleaner, the readable one
--max-batch-bytes --json
"""
EXAMPLES = """\
  kafkagroups compact data/harbour/3.9.2/__consumer_offsets-9 --out cleaned
  kafkagroups compact CLEANED --out AGAIN --first-dirty 42    a second pass; the first pass printed 42"""


def run(args: argparse.Namespace) -> int:
    given = {each.name: getattr(args, each.name) for each in fields(CleanerConfig)}
    config = CleanerConfig(**{name: value for name, value in given.items() if value is not None})

    def clean(topic: Topic) -> Compaction:
        with progress_bar() as progress:
            return topic.compact(args.out, config, progress=progress)

    return answers.answer_each(args, clean, _print_text, _to_json, list_problems=_list_problems, spins=False)


def _list_problems(topic: Topic, compaction: Compaction) -> list[str]:
    damage = describe_rest(topic.open().logs[0], compaction.damage, topic.dialect)
    return [str(damage)] if damage else []


def _to_json(topic: Topic, compaction: Compaction) -> dict[str, Any]:
    found = asdict(compaction)
    del found["damage"]  # The damage is printed on stderr.
    return found


def _print_text(args: argparse.Namespace, topic: Topic, compaction: Compaction) -> None:
    print_line(f"{args.path} after one pass of the cleaner, in {args.out}")
    before, after = (asdict(counts) for counts in (compaction.before, compaction.after))
    removed = [before[name] - after[name] for name in before]
    rows = [("before", *before.values()), ("after", *after.values()), ("removed", *removed)]
    print_table(("", *before), rows)
    for base_offsets in compaction.groups:  # The segments that a new one replaces.
        if len(base_offsets) > 1:
            print_text(f"Segments {', '.join(map(str, base_offsets))} were merged.")
    next_dirty = compaction.next_dirty_offset
    end = f"The next dirty offset is {next_dirty}: run a second pass with --first-dirty {next_dirty}."
    if not compaction.groups:
        end = (
            "Nothing was cleaned: no dirty record, from --first-dirty on, is before the first uncleanable segment. It "
            "contains --first-uncleanable: by default, the start of the oldest open transaction or active segment."
        )
    print_text(end)
