"""The command `completion`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import Any

from kafkagroups.cli.options import Options, Parser
from kafkagroups.cli.output import print_line

ARGUMENTS = """
SHELL  bash, zsh or fish
"""
EXAMPLES = """\
  source <(kafkagroups completion bash)                                    in ~/.bashrc
  source <(kafkagroups completion zsh)                                     in ~/.zshrc, after compinit
  kafkagroups completion fish > ~/.config/fish/completions/kafkagroups.fish"""
SHELLS = ("bash", "zsh", "fish")
_BASH = """\
_kafkagroups() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} words=
    if [ "$COMP_CWORD" -eq 1 ]; then
        words={commands}
    else
        case "${{COMP_WORDS[1]}} $previous" in
{cases}
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _kafkagroups kafkagroups"""


def run(args: Options) -> int:
    from kafkagroups.cli import COMMANDS, create_parser
    from kafkagroups.errors import UsageError

    if args.shell not in SHELLS:
        raise UsageError(f"expected bash, zsh or fish, found {args.shell!r}")
    parsers = {name: create_parser(name) for name in COMMANDS}
    options = {name: list(_list_options(parser)) for name, parser in parsers.items()}
    if args.shell == "fish":
        for name, text in COMMANDS.items():
            print_line(f"complete -c kafkagroups -n __fish_use_subcommand -f -a {name} -d {shlex.quote(text)}")
            for option in options[name]:
                print_line(_complete_in_fish(name, option))
        return 0
    cases = [
        _case(f"{name} {option.option_strings[0]}", option.choices)
        for name in COMMANDS
        for option in options[name]
        if option.choices
    ]
    for name in COMMANDS:
        names = [option.option_strings[0] for option in options[name]]
        steps = [
            each for action in parsers[name]._actions if isinstance(action.choices, dict) for each in action.choices
        ]
        cases.append(_case(f"{name} {name}", [*steps, *(SHELLS if name == "completion" else ()), *names]))
        cases.append(_case(f"{name} ", names, "*"))
    if args.shell == "zsh":
        print_line("autoload -U +X bashcompinit && bashcompinit")
    for line in _BASH.format(commands=shlex.quote(" ".join(COMMANDS)), cases="\n".join(cases)).splitlines():
        print_line(line)
    return 0


def _case(start: str, words: Iterable[str], end: str = "") -> str:
    return f"            {shlex.quote(start)}{end}) words={shlex.quote(' '.join(words))} ;;"


def _list_options(parser: Parser) -> Iterator[Any]:
    for action in parser._actions:
        if action.option_strings and action.option_strings[0] != "-h":
            yield action
        for inner in action.choices.values() if isinstance(action.choices, dict) else ():
            yield from _list_options(inner)


def _complete_in_fish(command: str, option: Any) -> str:
    words = ["complete", "-c", "kafkagroups", "-n", f"__fish_seen_subcommand_from {command}"]
    words += ["-l", option.option_strings[0].lstrip("-"), "-d", option.help]
    if option.choices:
        words += ["-x", "-a", " ".join(option.choices)]
    elif option.nargs != 0:
        words.append("-r")
    return shlex.join(words)
