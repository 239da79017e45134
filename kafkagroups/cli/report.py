"""The command `report`."""

from __future__ import annotations

import argparse

from kafkagroups.cli import answers
from kafkagroups.cli.diff import describe_replicas
from kafkagroups.cli.output import print_error, print_line, spinner
from kafkagroups.errors import UsageError
from kafkagroups.history.finding import count_of
from kafkagroups.html_report.page import report_on

ARGUMENTS = """
PATH...
--out! FILE  the HTML file; an existing file is replaced
--coordinator --kafka --partitions --engine --max-batch-bytes
"""
EXAMPLES = """\
  kafkagroups report /var/lib/kafka/data --out report.html --kafka 3.9.2
  kafkagroups report broker-1 broker-2 --out report.html       two replicas, compared"""


def run(args: argparse.Namespace) -> int:
    topics = []
    opened = []
    status = 0
    for topic in answers.open_topics(args):
        try:
            opened.append(topic.open())
            topics.append(topic)
        except UsageError as error:
            print_error(error)
            status = 2
    if not topics:
        return status
    with spinner(args.out):
        result = report_on(opened, args.out, describe_replicas(topics))
    findings = count_of(len(result.findings), "finding") if result.findings else "no findings about the log"
    print_line(f"{args.out}: {findings}.")
    return max(status, answers.print_problems(result.problems))
