"""The command `replay`."""

from __future__ import annotations

import argparse
from pathlib import Path

from kafkagroups.cli.output import print_json
from kafkagroups.log.folders import create_folder

ARGUMENTS = """
CONVERSATION.jsonl  the file with the requests
--out
--kafka VERSION  the Kafka version to play: 1.0.1, 2.8.2, 3.9.2, 4.3.1 or 4.4.0 (default: that of the recorded broker)
"""
EXAMPLES = """\
  kafkagroups replay CONVERSATION.jsonl --out LOG                answer as the Kafka version of the recorded broker
  kafkagroups replay CONVERSATION.jsonl --out LOG --kafka 2.8.2  answer as another Kafka version"""


def run(args: argparse.Namespace) -> int:
    # These imports are slow, and other commands do not need them.
    from kafkagroups.coordinator.conversation import read_conversation
    from kafkagroups.coordinator.player import Player

    header, lines = read_conversation(args.conversation)
    player = Player(header, lines, args.out, args.kafka, Path(args.conversation).parent / "log")
    create_folder(Path(args.out))
    for output in player.play():  # One output is a request with its answer, or an append without a request.
        print_json(output)
    return 0
