"""The command line: the parser, exit codes, and one module per command.

Each command's module has NAME, HELP, EXAMPLES, `add_arguments` and `run`. `run` returns the exit code.

Exit code 0: success. Exit code 1: bad data; the readable part was printed, and stderr contains the first error. Exit
code 2: wrong usage.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from importlib import metadata

from kafkagroups.cli import (
    compact,
    decode,
    diff,
    doctor,
    dump,
    encode,
    explain,
    load,
    options,
    partition,
    pull,
    replay,
    stats,
    synth,
)
from kafkagroups.errors import KafkagroupsError, UsageError

COMMANDS = (decode, encode, partition, dump, load, explain, diff, stats, compact, pull, synth, replay, doctor)


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code. For a user's mistake, print one line on stderr and no traceback.

    `argv` contains the arguments after the program's name; None means those of this process.
    """
    parser = _Parser(
        prog="kafkagroups",
        description="Read and explain Kafka's __consumer_offsets topic.",
        epilog="`kafkagroups COMMAND --help` shows the options and examples of a command.",
    )
    parser.add_argument("--version", action="version", version=f"kafkagroups {metadata.version('kafkagroups')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command_parser = commands.add_parser(
            command.NAME,
            help=command.HELP,
            description=command.HELP[0].upper() + command.HELP[1:] + ".",
            epilog=command.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(command_parser)
        command_parser.set_defaults(run=command.run)
    for stream in (sys.stdout, sys.stderr):
        if stream is None:  # The caller closed it, so no message can be printed.
            return 1
        if isinstance(stream, io.TextIOWrapper):
            # As in Java, an unpaired surrogate is printed as "?".
            stream.reconfigure(encoding="utf-8", errors="replace")
    if argv is None:
        argv = [os.fsencode(argument).decode("utf-8", "replace") for argument in sys.argv[1:]]
    try:
        args = parser.parse_args(argv)
        status: int = args.run(args)
        sys.stdout.flush()
        return status
    except UsageError as error:
        options.print_error(error)
        return 2
    except KafkagroupsError as error:
        options.print_error(error)
        return 1
    except BrokenPipeError:  # The program that reads the output, such as `head`, has ended.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        options.print_error(f"the output cannot be written: {error.strerror}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        options.print_error("interrupted")
        return 130


class _Parser(argparse.ArgumentParser):
    """A parser that prints its errors in one line."""

    def error(self, message: str) -> None:  # type: ignore[override]  # The original is declared NoReturn.
        print(f"{self.prog}: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)
