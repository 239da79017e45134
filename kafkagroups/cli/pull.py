"""The command `pull`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from functools import partial

from kafkagroups.cli import answers
from kafkagroups.cli.options import CONNECTION, Options, find_connection
from kafkagroups.cli.output import print_error, print_json, print_line, print_table, progress_bar
from kafkagroups.errors import UsageError
from kafkagroups.repair.follow import follow
from kafkagroups.repair.pull import pull

ARGUMENTS = f"""
--partitions LIST  only these partitions, such as 0,3,7-9 (default: all)
--out! DIR  a new or empty folder for the segments; with --follow, also one in which the command has worked before
--follow  go on with what is new, until Ctrl-C: the history that the log cleaner of the brokers cannot take away
--keep TIME  with --follow: clean records that are older, such as 30d, like a broker's log cleaner
--json
{CONNECTION}
"""
EXAMPLES = """\
  kafkagroups pull --bootstrap broker-1:9092 --out pulled
  kafkagroups pull --bootstrap broker-1:9092,broker-2:9092 --partitions 0,3,7-9 --out pulled --json
  kafkagroups pull --bootstrap broker-1:9093 --out pulled --security-protocol SASL_SSL --cafile ca.pem \\
      --sasl-mechanism SCRAM-SHA-512 --user auditor --password-file secret

  kafkagroups pull --bootstrap broker-1:9092 --out history --follow --keep 30d

The user needs the rights to describe and to read the topic __consumer_offsets."""


def run(args: Options) -> int:
    connection = find_connection(args)
    if args.keep is not None and not args.follow:
        raise UsageError("--keep cleans what --follow has kept: add --follow")
    if args.follow:
        if args.json:
            raise UsageError("--follow has no result: use --json without it")
        del connection["on_wait"]
        with suppress(KeyboardInterrupt):
            follow(out=args.out, partitions=args.partitions, keep_ms=args.keep, report=print_error, **connection)
        return 0
    with progress_bar(min_total=0) as report:
        progress = partial(report, "pulling") if report else None
        pulled = pull(out=args.out, partitions=args.partitions, progress=progress, **connection)
    partitions = {number: asdict(part) for number, part in pulled.partitions.items()}
    if args.json:
        print_json({"partitions": partitions})
    else:
        rows = [(number, *part.values()) for number, part in partitions.items() if part["bytes"]]
        print_table(("partition", "first", "next", "bytes"), rows)
        size = sum(part["bytes"] for part in partitions.values())
        empty = len(partitions) - len(rows)
        print_line(f"{size} bytes of {len(partitions)} partitions, {empty} of them empty, in {args.out}")
    return answers.print_problems(pulled.problems)
