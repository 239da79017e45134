"""The command `replay`: play a recorded conversation against this package's coordinator."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from kafkagroups.log.writer import create_folder

NAME = "replay"
HELP = "play a recorded conversation against a coordinator; print its answers and appends"
EXAMPLES = """\
examples:
  kafkagroups replay CONVERSATION.jsonl --out LOG                one line per request, as the recorded version answers
  kafkagroups replay CONVERSATION.jsonl --out LOG --kafka 2.8.2  as another version answers
  kafkagroups dump LOG                                           show what was appended"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("conversation", metavar="CONVERSATION.jsonl", help="requests and events, in order")
    parser.add_argument("--out", required=True, metavar="DIR", help="a new or empty folder for the coordinator's log")
    parser.add_argument(
        "--kafka",
        metavar="VERSION",
        help="the coordinator's version: 1.0.1, 2.8.2 or 3.9.2 (default: the version of the recorded broker)",
    )


def run(args: argparse.Namespace) -> int:
    # These imports are slow, so they wait until the command runs.
    from kafkagroups.replay.conversation import read_conversation
    from kafkagroups.replay.player import Player

    header, lines = read_conversation(args.conversation)
    player = Player(header, lines, args.out, args.kafka)
    create_folder(Path(args.out))
    for line in player.play():
        print(json.dumps(line))
    return 0
