"""The quizzes of the instructor kit, the answers, and the solutions of exercises that compute them."""

import re
from pathlib import Path

from kafkagroups.course.exercises.catalog import EXERCISES
from kafkagroups.course.small_logs import encode_records
from tests.handmade import LogWriter

ROOT = Path(__file__).parents[2]
KIT = ROOT / "docs" / "instructor"
LESSONS = sorted((ROOT / "notebooks" / "source").glob("[0-9][0-9]_*.py"))
NUMBERS = [path.stem[:2] for path in LESSONS]


def read_quiz(number):
    """Return the questions of a quiz by their number."""
    text = (KIT / "quiz" / f"{number}.md").read_text(encoding="utf-8")
    parts = re.split(r"^\*\*(\d+)\.\*\* ", text, flags=re.MULTILINE)[1:]
    return dict(zip(map(int, parts[::2]), parts[1::2], strict=True))


def read_answers(number):
    """Return the answer and the explanation of each question by its number."""
    text = (KIT / "answers" / f"{number}.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (\d+)\. (.+)$", text, flags=re.MULTILINE)[1:]
    return {int(n): (a, t) for n, a, t in zip(parts[::3], parts[1::3], parts[2::3], strict=True)}


def read_bytes(number, question):
    """Return the hex digits in a question, as bytes. An indented line continues the line before it."""
    text = re.sub(r"\n {7}(?=[0-9a-f]{2} )", " ", read_quiz(number)[question])
    pattern = r"(?:^|`)(?:key|value)? *((?:[0-9a-f]{2} )+[0-9a-f]{2})(?:$|`)"
    return [bytes.fromhex(line) for line in re.findall(pattern, text, re.M)]


def read_table(number, question):
    """Return the cells of the rows of a table in a question, without its head."""
    rows = re.findall(r"^\| (\d.*) \|$", read_quiz(number)[question], re.M)
    return [row.split(" | ") for row in rows]


def find_answer(number, question):
    return read_answers(number)[question][0]


def solve(name, *arguments):
    """Return what the solution of an exercise returns."""
    names = {}
    exec(EXERCISES[name].solution, names)
    return names[name](*arguments)


def write_log(folder, batches):
    """Write a log. A batch is a list of keys and values."""
    with LogWriter(folder) as log:
        for pairs in batches:
            log.append(encode_records(log.next_offset, 1_700_000_000_000, pairs))
    return folder
