"""The command line: one file per command, each with NAME, HELP, EXAMPLES, `add_arguments` and `run`.

Exit codes: 0 fine; 1 the data is bad (what could be read was printed, the first error is on stderr); 2 bad usage.
"""

from __future__ import annotations

import argparse
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
    """Runs one command and gives its exit code. A user's mistake is one line on stderr, never a traceback."""
    parser = _Parser(
        prog="kafkagroups",
        description="Read what Kafka keeps in __consumer_offsets.",
        epilog="kafkagroups COMMAND --help shows a command's options and examples.",
    )
    parser.add_argument("--version", action="version", version=f"kafkagroups {metadata.version('kafkagroups')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        sub = commands.add_parser(
            command.NAME,
            help=command.HELP,
            description=command.HELP[0].upper() + command.HELP[1:] + ".",
            epilog=command.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(sub)
        sub.set_defaults(run=command.run)
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            return 1  # closed: there is nobody to tell
        if hasattr(stream, "reconfigure"):  # half a surrogate pair prints as ?, as Java does
            stream.reconfigure(encoding="utf-8", errors="replace")
    try:
        given = (
            [os.fsencode(argument).decode("utf-8", "replace") for argument in sys.argv[1:]] if argv is None else argv
        )
        args = parser.parse_args(given)
        status: int = args.run(args)
        sys.stdout.flush()
        return status
    except UsageError as error:
        options.complain(error)
        return 2
    except KafkagroupsError as error:
        options.complain(error)
        return 1
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        options.complain(f"the output cannot be written: {error.strerror}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        options.complain("interrupted")
        return 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]  # raises like the original, in one line
        print(f"{self.prog}: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)
