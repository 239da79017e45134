"""The list of commands, the whole names of options, the nearest name of a wrong one, and the width of texts."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOG = ROOT / "data" / "harbour" / "3.9.2"


def test_the_command_alone_shows_what_help_shows(run):
    """Alone, it is bad usage."""
    status, alone, err = run()
    assert (status, err.count("\n")) == (2, 1) and "COMMAND" in err
    assert run("--help") == (0, alone, "")


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


@pytest.mark.parametrize("width", [20, 60, 100, 200])
def test_a_text_in_a_pipe_is_as_wide_as_columns_says(run, monkeypatch, width):
    """A longer line has one word, or is a row that has no space to break at."""
    monkeypatch.setenv("COLUMNS", str(width))
    _, out, _ = run("check", LOG, "--coordinator", "classic")
    long_lines = [line for line in out.splitlines() if len(line) > width]
    assert all(len(line.split()) == 1 for line in long_lines)
    assert max(map(len, out.splitlines())) > min(width, 80) - 20
