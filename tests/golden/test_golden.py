"""Golden scripts: what a coordinator answers and appends, command by command.

A script is blocks of commands, each with `---` and what was answered below it. Its first line says what it shows and
which run, conversation or Kafka test it restates; its name begins with the row of the articles. `KG_GOLDEN=write`
writes the answers anew, for review by diff.
"""

import os
from pathlib import Path

import pytest

from tests.golden.commands import Script

SCRIPTS = sorted(Path(__file__).parent.glob("coordinator/*.txt"))
ROWS = {*range(8, 27), 32}


def played(text: str, folder: Path) -> str:
    """The script with the answers that it gets now."""
    script, blocks = Script(folder), []
    for block in text.rstrip("\n").split("\n\n"):
        commands = block.split("\n---\n")[0].removesuffix("\n---")
        answers = []
        for line in commands.splitlines():
            if line and not line.startswith("#"):
                answers += script.run(line)
        runs = any(not line.startswith("#") for line in commands.splitlines())
        blocks.append("\n".join([commands, "---", *answers]) if runs else commands)
    return "\n\n".join(blocks) + "\n"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_coordinator_answers_as_recorded(path, tmp_path):
    text = path.read_text(encoding="utf-8")
    now = played(text, tmp_path)
    if os.environ.get("KG_GOLDEN") == "write":
        path.write_text(now, encoding="utf-8")
    assert now == text or os.environ.get("KG_GOLDEN") == "write"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_says_what_it_shows_and_where_it_is_from(path):
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# ") and ("Source: " in first or "Source: " in path.read_text(encoding="utf-8"))


def test_every_row_has_a_script():
    """Rows 8 to 26 and 32 of what the articles describe."""
    assert {int(path.stem.split("_")[0]) for path in SCRIPTS} == ROWS
