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
