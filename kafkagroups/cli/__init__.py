"""The command line: the parser, exit codes, and one module per command.

Each command's module has the texts NAME, HELP and EXAMPLES, and the functions `add_arguments` and `run`. `run` returns
the exit code:

- 0: success.
- 1: failure. If the data is bad, its readable part is printed on stdout, and the first error on stderr.
- 2: wrong usage.
- 130: the user pressed Ctrl-C.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from importlib import import_module

from kafkagroups import interrupts
from kafkagroups.cli import options
from kafkagroups.cli.output import print_error_line
from kafkagroups.errors import KafkagroupsError, UsageError
from kafkagroups.extras import describe_missing

COMMANDS = (
    "decode",
    "encode",
    "partition",
    "dump",
    "load",
    "explain",
    "timeline",
    "diff",
    "stats",
    "check",
    "report",
    "compact",
    "edit",
    "pull",
    "rescue",
    "synth",
    "replay",
    "doctor",
)
"""The names of the commands and of their modules."""


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code. For a user's mistake, print one line on stderr and no traceback.

    `argv` contains the arguments after the program's name. None means the arguments of this process.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is None:  # The shell started this process with a closed stdout or stderr.
            return 1
        if isinstance(stream, io.TextIOWrapper):
            # An unpaired surrogate (half of a UTF-16 character) has no UTF-8 bytes. Like Java, print "?".
            stream.reconfigure(encoding="utf-8", errors="replace")
    if argv is None:
        # Python has decoded the arguments with the locale's encoding. Decode the same bytes as UTF-8.
        argv = [os.fsencode(argument).decode("utf-8", "replace") for argument in sys.argv[1:]]
    try:
        parser = _build_parser(argv)
        interrupts.raise_at_ctrl_c()
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
    except ModuleNotFoundError as error:
        line = describe_missing(error.name, "this command")
        if line is None:
            raise
        options.print_error(line)
        return 2
    except BrokenPipeError:  # The program that reads the output, such as `head`, has ended.
        _discard_output()
        return 0
    except OSError as error:
        if error.filename is not None:
            options.print_error(f"{error.filename}: {error.strerror or error}")
            return 1
        # A command raises UsageError if it cannot read a file. An OSError without a file name comes from stdout.
        options.print_error(f"the output cannot be written: {error.strerror or error}")
        _discard_output()
        return 1
    except MemoryError:
        options.print_error("not enough memory for this input")
        return 1
    except KeyboardInterrupt:
        options.print_error("interrupted")
        return interrupts.EXIT_CODE
    finally:
        # Python now waits for threads. Meanwhile, Ctrl-C must end the process without a traceback.
        interrupts.exit_at_ctrl_c()


def _build_parser(argv: list[str]) -> argparse.ArgumentParser:
    """Return the parser of these arguments. If they begin with a command, only its module is imported, to save time."""
    parser = _Parser(
        prog="kafkagroups",
        description="Read and explain Kafka's __consumer_offsets topic.",
        epilog="`kafkagroups COMMAND --help` shows the options and examples of a command.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    given_commands = [name for name in argv[:1] if name in COMMANDS]
    if not given_commands:
        from importlib import metadata

        parser.add_argument("--version", action="version", version=f"kafkagroups {metadata.version('kafkagroups')}")
    for name in given_commands or COMMANDS:
        command = import_module(f"kafkagroups.cli.{name}")
        command_parser = commands.add_parser(
            command.NAME,
            help=command.HELP,
            description=command.HELP[0].upper() + command.HELP[1:] + ".",
            epilog=command.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(command_parser)
        command_parser.set_defaults(run=command.run)
    return parser


def _discard_output() -> None:
    """Redirect stdout to the null device. Otherwise, Python's last write to stdout at the end of the process fails."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Parser(argparse.ArgumentParser):
    """A parser that prints its errors in one line."""

    def error(self, message: str) -> None:  # type: ignore[override]  # In argparse, the return type is NoReturn.
        print_error_line(f"{self.prog}: {message} (see {self.prog} --help)")
        raise SystemExit(2)
