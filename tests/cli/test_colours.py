"""On a terminal, verdicts, findings and fates have colours; everywhere else, the text is plain."""

import re
import sys
from pathlib import Path

import pytest

DATA = Path(__file__).parents[2] / "data" / "harbour"
EXPLAIN = ["explain", str(DATA / "3.9.2"), "--group", "fraud-check", "--topic", "payments", "--partition", "0"]


@pytest.mark.parametrize("command", [["check", str(DATA / "4.3.1"), "--to", "3.9.2"], EXPLAIN])
def test_a_terminal_gets_the_same_text_with_colours(command, monkeypatch, run):
    """NO_COLOR switches them off (no-color.org)."""
    monkeypatch.setenv("COLUMNS", "80")
    _, plain, _ = run(*command)
    assert "\x1b" not in plain
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    _, coloured, _ = run(*command)
    assert "\x1b[1;32m" in coloured
    assert re.sub("\x1b\\[[0-9;]*m", "", coloured) == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert run(*command)[1] == plain
