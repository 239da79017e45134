"""Commands of this package that run in a folder, and the remedy that one of them names, from a notebook."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

from kafkagroups.api import check
from kafkagroups.errors import UsageError


def run_command(command: str, folder: str | Path = ".") -> None:
    """Run a command such as "kafkagroups check copy" in a folder, and print the command and its output.

    Messages on stderr are not printed: after a failure, they repeat the first finding. Raises UsageError if the command
    is not `kafkagroups`, or if its arguments are wrong.
    """
    output = read_output(command, folder)
    print(f"$ {command}")
    print(output)


def read_output(command: str, folder: str | Path) -> str:
    program, *arguments = shlex.split(command)
    if program != "kafkagroups":
        raise UsageError(f"{command}: only the command kafkagroups can run here")
    # A kernel asks programs for colours.
    environment = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "CLICOLOR_FORCE")}
    result = subprocess.run(
        [sys.executable, "-m", "kafkagroups", *arguments],
        cwd=folder,
        env={**environment, "NO_COLOR": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if not result.stdout:  # Wrong usage.
        raise UsageError(f"{command}: {result.stderr.strip()}")
    return result.stdout.rstrip()


def print_first_remedy(path: str | Path, kafka: str) -> None:
    """Print the remedy of the first finding of `kafkagroups check`, with each sentence on its own line."""
    first_finding = check(path, kafka=kafka).findings[0]
    for sentence in re.split(r"(?<=\.) (?=[A-Z0-9])", first_finding.remedy):
        print(*textwrap.wrap(sentence, 90, subsequent_indent="    ", break_on_hyphens=False), sep="\n")
