"""The list of commands, the whole names of options, the nearest name of a wrong one, and the width of texts."""

import json
import re
from importlib import import_module
from pathlib import Path

import pytest

from kafkagroups.cli import COMMANDS, FIRST_EXAMPLES, GROUPS, RUNBOOK
from kafkagroups.cli.options import Parser
from kafkagroups.cli.output import print_table

ROOT = Path(__file__).parents[2]
LOG = ROOT / "data" / "harbour" / "3.9.2"


def test_the_command_alone_shows_what_help_shows(run):
    """Alone, it is bad usage. Both name every command below its group, the runbook, and an example of each group."""
    status, alone, err = run()
    assert (status, err.count("\n")) == (2, 1) and "COMMAND" in err
    status, out, err = run("--help")
    assert (status, err, out) == (0, "", alone)
    assert [line for line in out.splitlines() if line in GROUPS] == list(GROUPS)
    assert re.findall(r"^  (\w+)  ", out, re.M) == list(COMMANDS)
    assert RUNBOOK in " ".join(out.split()) and (ROOT / RUNBOOK).exists()
    for commands in GROUPS.values():
        assert FIRST_EXAMPLES[next(iter(commands))] in out


@pytest.mark.parametrize("command", FIRST_EXAMPLES)
def test_the_example_of_a_group_is_the_first_one_of_its_command(command):
    examples = import_module(f"kafkagroups.cli.{command}").EXAMPLES.splitlines()
    assert examples[0] == "examples:" and examples[1].startswith(f"  {FIRST_EXAMPLES[command]}")


@pytest.mark.parametrize("word", ["--partition", "--part", "--jso", "--coord=classic"])
def test_options_are_never_abbreviated(run, word):
    """`load --partition 2` was once taken for `--partitions 2`, which gives other answers."""
    status, out, err = run("load", LOG, word, *([] if "=" in word else ["2"]))
    name = word.partition("=")[0]
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"unrecognized arguments: {name}; the nearest one is {name[:6]}" in err


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [
        (["laod", "x"], "load"),
        (["time-line"], "timeline"),
        (["explain", LOG, "--grp", "billing"], "--group"),
        (["rescue", "plan", LOG, "--kafak", "3.9.2"], "--kafka"),
    ],
)
def test_a_wrong_name_gets_the_nearest_one(run, arguments, nearest):
    status, out, err = run(*arguments)
    assert (status, out, err.count("\n")) == (2, "", 1) and f"the nearest one is {nearest} (see kafkagroups" in err


def test_a_name_that_is_near_nothing_gets_none(run):
    assert "nearest" not in run("xyzzy")[2] + run("load", LOG, "--xyzzy")[2]


def test_a_word_after_two_dashes_is_no_option(run):
    assert json.loads(run("partition", "--json", "--", "--group")[1])["group"] == "--group"


@pytest.mark.parametrize(
    ("form", "words", "expected"),
    [
        ("--n N=5  a number", [], {"n": 5}),
        ("--by group|topic=group  a choice", ["--by", "topic"], {"by": "topic"}),
        ("--g GLOB...  patterns", ["--g", "a", "--g", "b"], {"g": ["a", "b"]}),
        ("--f [F=0.5]  a fraction", ["--f"], {"f": 0.5}),
        ("PATH...", ["a", "b"], {"paths": ["a", "b"]}),
        ("[KEY]  a key\n--json --past-damage", ["--json"], {"key": None, "json": True, "past_damage": False}),
    ],
)
def test_arguments_are_declared_as_the_help_shows_them(form, words, expected):
    parser = Parser("test", "")
    parser.declare(form)
    assert vars(parser.parse_args(words)) == expected


@pytest.mark.parametrize("width", [20, 60, 100, 200])
def test_a_text_in_a_pipe_is_as_wide_as_columns_says(run, monkeypatch, width):
    """A longer line has one word, or is a row that has no space to break at."""
    monkeypatch.setenv("COLUMNS", str(width))
    _, out, _ = run("check", LOG, "--coordinator", "classic")
    long_lines = [line for line in out.splitlines() if len(line) > width]
    assert all(len(line.split()) == 1 for line in long_lines)
    assert max(map(len, out.splitlines())) > min(width, 80) - 20


@pytest.mark.parametrize("width", [5, 30, 80])
def test_a_table_breaks_no_word_number_or_time(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    cells = ["orders-1234567", "1234567890", "2026-11-21 10:13:27.553", "a sentence of several words", "café-☕"]
    print_table(["name", "number", "written (UTC)", "what", "group"], [cells] * 2)
    out = capsys.readouterr().out
    for text in [*cells[:3], *cells[3].split(), cells[4]]:
        assert out.count(text) >= 2
