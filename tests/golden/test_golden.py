"""The golden scripts of the group coordinator, played and compared with their recorded answers.

GOLDEN=write records the answers again: review the diff.
"""

import os
import re
from pathlib import Path

import pytest

from tests.golden.script import play

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((Path(__file__).parent / "coordinator").glob("*.txt"))
ROWS = {*range(8, 27), 32}
"""The rows of the articles' table (docs/terms.md) that the coordinator owns."""
SOURCE = re.compile(r"# \S.* — .*([123]\.\d\.\d-\w+ \d|Test\.\w+|\.scala)")
"""The rule that the script shows, a dash, and its source: requests of a conversation, or a test or class of Kafka."""


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_gives_its_recorded_answers(path, tmp_path):
    """Every answer and every appended record, in their order."""
    recorded = path.read_text(encoding="utf-8")
    output = play(recorded, tmp_path)
    if os.environ.get("GOLDEN") == "write":
        path.write_text(output, encoding="utf-8")
    else:
        assert output.splitlines() == recorded.splitlines()


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_names_its_source(path):
    """The first line contains the rule and the conversation, test or class of Kafka that the script restates."""
    assert SOURCE.match(path.read_text(encoding="utf-8").splitlines()[0])


def test_every_row_has_a_script():
    """Rows 8 to 26 and 32."""
    assert {int(path.name[:2]) for path in SCRIPTS} == ROWS


def test_every_row_leads_to_code_scripts_and_a_lesson_that_exist():
    """The table at the end of docs/terms.md: functions stand in their files, sections in their lessons."""
    rows = re.findall(r"^\| (\d+) [^|]+\|(.+?)\|(.+?)\|(.+?)\|$", (ROOT / "docs" / "terms.md").read_text(), re.M)
    assert {int(row) for row, *_ in rows} == ROWS
    for _, code, scripts, lessons in rows:
        for part in code.split(";"):
            file, *functions = re.findall(r"`(.+?)`", part)
            found = [ROOT / "kafkagroups" / room / file for room in ("coordinator", "groups")]
            text = "".join(path.read_text() for path in found if path.exists())
            assert text and all(f"def {each}(" in text for each in functions), part
        for name in re.findall(r"`(.+?)`", scripts):
            assert any(path.match(f"{name}.txt") for path in SCRIPTS), name
        for lesson in lessons.split(";"):
            (source,) = (ROOT / "notebooks" / "source").glob(f"{lesson.split()[0]}_*.py")
            for section in re.findall(r'"(.+?)"', lesson):
                assert f"# ## {section}\n" in source.read_text(), section
