"""The command line: the commands, exit codes, and one module per command.

Each command's module has the texts ARGUMENTS (options.py), EXAMPLES and perhaps NOTES, and the function `run`, which
returns the exit code:

- 0: success.
- 1: failure. If the data is bad, its readable part is printed on stdout, and the first error on stderr.
- 2: wrong usage.
- 130: the user pressed Ctrl-C.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import nullcontext
from importlib import import_module
from typing import TYPE_CHECKING

from kafkagroups import interrupts
from kafkagroups.cli import output
from kafkagroups.errors import KafkagroupsError, UsageError
from kafkagroups.helpers import describe_missing

if TYPE_CHECKING:
    from kafkagroups.cli.options import Parser

GROUPS = {
    "Look: what is in a log?": {
        "load": "load a log as a broker's coordinator does, and show the groups and offsets",
        "explain": "show which record decides the state of a group or of an offset, and the fate of the other records",
        "timeline": "show the history of a group: generations, commits, rewinds, transactions, deletions, and gaps",
        "dump": "print every batch and record of a log",
    },
    "Judge: is it healthy?": {
        "check": "say whether the next failover, or a broker after an upgrade or downgrade, loads a log",
        "stats": "show why a log is large and slow: dead records, open transactions, what cannot be cleaned",
        "diff": "compare the groups and offsets of two logs, of two moments of one log, or of the two coordinators",
        "report": "write one HTML page about logs: findings with remedies, history, size, groups",
    },
    "Repair: bring groups back": {
        "rescue": "restore the groups and offsets of a dead or damaged cluster in another cluster",
        "edit": "copy a partition's log and change the copy: new records, markers, cuts, cleaning passes",
        "compact": "write the segments that one pass of Kafka 4.3.1's log cleaner leaves of a partition",
    },
    "Learn: how does it work?": {
        "decode": "decode a record from the hex digits of its key and value, and explain every byte",
        "partition": "print the partition of __consumer_offsets that stores a group",
        "replay": "play recorded requests against this package's coordinator, and print its answers and records",
    },
    "Tools": {
        "pull": "copy __consumer_offsets of a running cluster into segment files, byte for byte, with control batches",
        "encode": "encode records from the JSON that `decode --jsonl` prints",
        "synth": "write a synthetic topic of any size, as segments that a broker can load",
        "doctor": "check Python, packages, Jupyter's kernel, Java, disk and memory; say how to repair what is wrong",
        "completion": "print a script with which bash, zsh or fish completes commands and options",
    },
}
COMMANDS = {name: text for commands in GROUPS.values() for name, text in commands.items()}
"""What each command does, by its name, which is also the name of its module."""
COLOURED = ("load", "explain", "timeline", "check", "stats", "diff", "rescue")
"""The commands whose text has colours on a terminal."""
RUNBOOK = "docs/operator.md"


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code. For a user's mistake, print one line on stderr and no traceback."""
    for name in ("stdin", "stdout", "stderr"):
        # The caller can have closed it. Then the next file that is opened, such as a log, would get its number.
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), "r" if name == "stdin" else "w"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # An unpaired surrogate (half of a UTF-16 character) has no UTF-8 bytes. Like Java, print "?".
            stream.reconfigure(encoding="utf-8", errors="replace")
    if argv is None:
        # Python has decoded the arguments with the locale's encoding. Decode the same bytes as UTF-8.
        argv = [os.fsencode(argument).decode("utf-8", "surrogateescape") for argument in sys.argv[1:]]
    try:
        status = _run(argv)
        sys.stdout.flush()
        return status
    except KafkagroupsError as error:
        output.print_error(error)
        return 2 if isinstance(error, UsageError) else 1
    except ModuleNotFoundError as error:
        line = describe_missing(error.name, "this command")
        if line is None:
            raise
        output.print_error(line)
        return 2
    except BrokenPipeError:  # The program that reads the output, such as `head`, has ended.
        _discard_output()
        return 0
    except OSError as error:
        if error.filename is not None:
            output.print_error(f"{error.filename}: {error.strerror or error}")
            return 1
        # A command raises UsageError if it cannot read a file. An OSError without a file name comes from stdout.
        output.print_error(f"the output cannot be written: {error.strerror or error}")
        _discard_output()
        return 1
    except MemoryError:
        output.print_error("not enough memory for this input")
        return 1
    except KeyboardInterrupt:
        output.print_error("interrupted")
        return interrupts.EXIT_CODE
    finally:
        # Python now waits for threads. Meanwhile, Ctrl-C must end the process without a traceback.
        interrupts.exit_at_ctrl_c()


def _run(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        _print_overview()
        if not argv:
            output.print_error("the following arguments are required: COMMAND (see kafkagroups --help)")
        return 0 if argv else 2
    name, *words = argv
    if name == "--version":
        from importlib import metadata

        output.print_line(f"kafkagroups {metadata.version('kafkagroups')}")
        return 0
    if name not in COMMANDS:
        output.print_error(f"no command {name!r}{output.describe_nearest(name, COMMANDS)} (see kafkagroups --help)")
        return 2
    parser = create_parser(name)
    interrupts.raise_at_ctrl_c()
    run = import_module(f"kafkagroups.cli.{name}").run
    options = parser.parse_args(words)
    has_colours = name in COLOURED and not getattr(options, "json", False)
    with output.coloured_output() if has_colours else nullcontext():
        status: int = run(options)
    return status


def create_parser(name: str) -> Parser:
    from kafkagroups.cli.options import Parser  # The help needs none of its imports.

    command = import_module(f"kafkagroups.cli.{name}")
    examples = f"examples:\n{command.EXAMPLES}"
    epilog = f"{command.NOTES}\n{examples}" if hasattr(command, "NOTES") else examples
    parser = Parser(f"kafkagroups {name}", f"{COMMANDS[name][0].upper()}{COMMANDS[name][1:]}.", epilog)
    parser.declare(command.ARGUMENTS)
    if hasattr(command, "add_steps"):
        command.add_steps(parser)
    return parser


def _print_overview() -> None:
    output.print_text("usage: kafkagroups COMMAND [OPTIONS]")
    output.print_text()
    output.print_text("Read and explain Kafka's __consumer_offsets topic.")
    for title, commands in GROUPS.items():
        output.print_text()
        output.print_line(title)
        for name, text in commands.items():
            output.print_text(f"  {name:9}  {text}", indent=" " * 13)
    output.print_text()
    output.print_text("`kafkagroups COMMAND --help` shows the options and examples of a command.")
    output.print_text(f"What to do at 3 am, symptom by symptom: the operators' runbook, {RUNBOOK} of the repository.")


def _discard_output() -> None:
    """Otherwise, Python's last write to stdout at the end of the process fails."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
