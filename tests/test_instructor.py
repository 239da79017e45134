"""docs/instructor/: the kit is complete, its plans add up, and what it names exists in the lessons."""

import ast
import builtins
import functools
import re
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest

from kafkagroups.course.exercises.catalog import EXERCISES_BY_LESSON
from kafkagroups.course.exercises.incidents.catalog import INCIDENTS
from tests.cases import case

ROOT = Path(__file__).parents[1]
KIT = ROOT / "docs" / "instructor"
LESSONS = sorted(path.name[:2] for path in (ROOT / "notebooks" / "source").glob("[0-9][0-9]_*.py"))
PARTS = ["Objectives", "What to draw", "How to start", "Question 1", "Question 2"]
PARTS += ["Where learners stumble", "What to skip", "Checkpoint"]
"""The sections of a guide, in this order. The heading of a question also says what it is about."""
PROJECTOR_COLUMNS = 60
LONGEST_WITHOUT_A_BREAK = 120
PASSED = re.compile(r"`✓ (\w+):[^`]*`")
QUOTED = re.compile(r'"([^"]+)"')


@functools.cache
def read_source(lesson: str) -> str:
    [path] = (ROOT / "notebooks" / "source").glob(f"{lesson}_*.py")
    return path.read_text(encoding="utf-8")


@functools.cache
def list_headings(lesson: str) -> tuple[str, ...]:
    return tuple(re.findall(r"^# ## (.*)$", read_source(lesson), re.MULTILINE))


@functools.cache
def find_sections_of_exercises(lesson: str) -> dict[str, str]:
    """Return the heading above each exercise of a lesson."""
    sections = {}
    heading = ""
    for line in read_source(lesson).splitlines():
        if line.startswith("# ## "):
            heading = line.removeprefix("# ## ")
        if line.startswith("# exercise: "):
            sections[line.removeprefix("# exercise: ")] = heading
    return sections


def read_guide(lesson: str) -> dict[str, str]:
    """Return the sections of a lesson's guide by their headings."""
    text = (KIT / "lessons" / f"{lesson}.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def read_table(text: str) -> list[list[str]]:
    """Return the cells of the rows of a Markdown table, without its heading."""
    rows = [line.strip().strip("|").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip(" |") for cell in row] for row in rows[2:]]


def list_questions(lesson: str) -> list[str]:
    return [text for heading, text in read_guide(lesson).items() if heading.startswith("Question")]


def test_every_lesson_has_a_guide():
    """A guide has the number of its lesson. No guide is left over."""
    assert sorted(path.stem for path in (KIT / "lessons").glob("*.md")) == LESSONS


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_guide_has_all_its_parts(lesson):
    """The title is that of the lesson, and the sections have one order."""
    text = (KIT / "lessons" / f"{lesson}.md").read_text(encoding="utf-8")
    [title] = re.findall(rf"^# # {lesson} · (.*)$", read_source(lesson), re.MULTILINE)
    assert text.startswith(f"# Lesson {lesson} · {title}\n")
    assert [heading.partition(":")[0] for heading in read_guide(lesson)] == PARTS


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_guide_has_objectives_a_picture_and_a_start(lesson):
    """There are three objectives. The picture fits a narrow projector. The start takes one minute."""
    guide = read_guide(lesson)
    assert re.findall(r"^(\d)\. \w", guide["Objectives"], re.MULTILINE) == ["1", "2", "3"]
    [picture] = re.findall(r"^```text\n(.*?)^```", guide["What to draw"], re.MULTILINE | re.DOTALL)
    lines = picture.splitlines()
    assert len(lines) >= 5
    assert max(len(line) for line in lines) <= PROJECTOR_COLUMNS
    assert guide["How to start"].strip().startswith("*One minute.* ")


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_question_has_one_right_answer_and_names_three_misconceptions(lesson):
    """Each wrong answer has its own misconception, a name in italics, and what to say or show."""
    for question in list_questions(lesson):
        with case(question.split("\n\n")[0]):
            rows = read_table(question)
            assert [row[0].strip("*") for row in rows] == ["A", "B", "C", "D"]
            right = [row for row in rows if row[0].startswith("**")]
            assert [row[2] for row in right] == ["right"]
            names = [re.match(r"\*([^*]+\.)\*", row[2])[1] for row in rows if row not in right]
            assert len(set(names)) == 3
            for row in rows:
                assert len(row) == 4 and row[1] and row[3]


def test_the_right_answer_is_not_always_the_same_letter():
    """Learners who vote for one letter all day must not be right all day."""
    letters = [row[0] for lesson in LESSONS for question in list_questions(lesson) for row in read_table(question)]
    right = [letter for letter in letters if letter.startswith("**")]
    assert len(right) == 2 * len(LESSONS)
    assert len(set(right)) == 4
    assert max(right.count(letter) for letter in set(right)) <= len(right) * 0.6


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_question_says_when_it_is_asked(lesson):
    """The section, the prediction or the exercise that the first sentence names exists in the lesson."""
    for question in list_questions(lesson):
        sentence = question.strip().partition(". ")[0]
        assert sentence.startswith(("Ask before ", "Ask after ")), sentence
        for heading in QUOTED.findall(sentence):
            assert heading in list_headings(lesson)
        for name in re.findall(r"`(\w+)`", sentence):
            assert re.search(rf"^(# exercise: {name}|{name} = \.\.\.)$", read_source(lesson), re.MULTILINE), name


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_guide_answers_learners_and_names_what_to_skip(lesson):
    """Each stumble has an answer. What can be skipped is a section or a box of the lesson."""
    guide = read_guide(lesson)
    stumbles = read_table(guide["Where learners stumble"])
    assert len(stumbles) >= 5
    for row in stumbles:
        assert len(row) == 2 and all(row), row
    lines = re.findall(r"^- (.*)$", guide["What to skip"], re.MULTILINE)
    assert len(lines) >= 2
    for line in lines:
        headings = QUOTED.findall(line)
        boxes = re.findall(r"\*\*([^*]+)\*\*", line)
        assert headings or boxes, line
        assert set(headings) <= set(list_headings(lesson)), line
        for box in boxes:
            assert f"<details><summary>{box}</summary>" in read_source(lesson)


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_checkpoint_names_an_exercise_of_its_lesson(lesson):
    """The checkpoint is the line of a check, which every learner can see."""
    names = PASSED.findall(read_guide(lesson)["Checkpoint"])
    assert names
    assert set(names) <= {exercise.name for exercise in EXERCISES_BY_LESSON[lesson]}


@pytest.mark.parametrize("lesson", LESSONS)
def test_names_of_exercises_in_the_stumbles_are_those_of_the_lesson(lesson):
    """A stumble of an exercise begins with the name of the exercise, as the learner sees it."""
    names = {exercise.name for exercise in EXERCISES_BY_LESSON[lesson]}
    for first, _ in read_table(read_guide(lesson)["Where learners stumble"]):
        if found := re.match(r"`([a-z]+(?:_[a-z]+)+)`", first):
            assert found[1] in names, first


def test_the_guide_of_lesson_14_has_every_incident():
    """The table names the incidents with their titles and levels, so that teams can choose."""
    rows = read_table(read_guide("14")["What to skip"])
    incidents = [(f"{incident.number} · {incident.title}", str(incident.level)) for incident in INCIDENTS]
    assert [(name, level) for name, level, _ in rows] == incidents
    for _, _, lessons in rows:
        assert set(lessons.split(", ")) <= set(LESSONS)


# The plans.


class Block(NamedTuple):
    """One block of a plan: when it begins, how long it takes, its title and its text."""

    start: int
    minutes: int
    title: str
    text: str

    def find(self, name: str) -> str:
        """Return what the block says after this name, with the steps below it."""
        [text] = re.findall(rf"^- \*\*{name}:\*\*((?:.*\n)(?:  - .*\n)*)", self.text, re.MULTILINE)
        return text.strip()

    def list_sections(self) -> list[tuple[str, str]]:
        """Return the lesson and the heading of each section that the block names."""
        sections = []
        for part in self.find("Sections").split("; "):
            lesson, _, headings = part.partition(" ")
            sections += [(lesson, heading) for heading in QUOTED.findall(headings)]
        return sections


BREAKS = ("Break", "Lunch")
ENDS = {
    "Three hours for application developers": (0, 3 * 60),
    "Three hours for operators": (0, 3 * 60),
    "One day": (9 * 60, 16 * 60 + 30),
    "Day 1": (9 * 60, 16 * 60 + 15),
    "Day 2": (9 * 60, 17 * 60),
}
"""The first and the last minute of each plan. The days count from midnight."""


def read_plans() -> dict[str, list[Block]]:
    """Return the blocks of each plan, or of each day of a plan of two days."""
    text = (KIT / "plans.md").read_text(encoding="utf-8")
    plans = {}
    name = ""
    for part in re.split(r"^(?=#{2,4} )", text, flags=re.MULTILINE):
        heading, _, body = part.partition("\n")
        found = re.fullmatch(r"#{3,4} (\d+):(\d\d) · (\d+) minutes · (.+)", heading)
        if found:
            hours, minutes, length, title = found.groups()
            plans[name].append(Block(int(hours) * 60 + int(minutes), int(length), title, body))
        else:
            name = heading.lstrip("# ")
            plans[name] = []
    return {name: blocks for name, blocks in plans.items() if blocks}


PLANS = read_plans()
WORK = [
    pytest.param(name, block, id=f"{name}-{block.title}")
    for name, blocks in PLANS.items()
    for block in blocks
    if block.title not in BREAKS
]


def test_the_minutes_of_a_plan_add_up():
    """A block begins when the block before it ends. The last one ends when the plan ends."""
    assert PLANS.keys() == ENDS.keys()
    for name, blocks in PLANS.items():
        with case(name):
            time, end = ENDS[name]
            for block in blocks:
                assert block.start == time, block.title
                time += block.minutes
            assert time == end


def test_nobody_works_for_two_hours_without_a_break():
    for name, blocks in PLANS.items():
        worked = 0
        for block in blocks:
            worked = 0 if block.title in BREAKS else worked + block.minutes
            assert worked <= LONGEST_WITHOUT_A_BREAK, (name, block.title)


@pytest.mark.parametrize(("plan", "block"), WORK)
def test_a_block_names_sections_of_the_lessons(plan, block):
    """Each section exists. The sections of a lesson are in the order in which a learner meets them."""
    sections = block.list_sections()
    assert sections
    for lesson in {lesson for lesson, _ in sections}:
        headings = [heading for number, heading in sections if number == lesson]
        assert [heading for heading in list_headings(lesson) if heading in headings] == headings


@pytest.mark.parametrize(("plan", "block"), WORK)
def test_a_block_says_who_does_what_and_what_is_dropped(plan, block):
    """Headings that are dropped are sections of this block."""
    for name in ("You", "Learners", "Checkpoint", "If late, drop"):
        assert block.find(name)
    for heading in QUOTED.findall(block.find("If late, drop")):
        boxes = "\n".join(read_source(lesson) for lesson, _ in block.list_sections())
        is_box = f"<details><summary>{heading}</summary>" in boxes
        assert is_box or heading in {heading for _, heading in block.list_sections()}, heading


@pytest.mark.parametrize(("plan", "block"), WORK)
def test_the_steps_of_a_block_take_its_minutes(plan, block):
    """A block of three hours has steps with minutes, except the first and the last one."""
    steps = [int(minutes) for minutes in re.findall(r"^  - (\d+) minutes: ", block.text, re.MULTILINE)]
    assert sum(steps) in (0, block.minutes)
    blocks = PLANS[plan]
    if plan.startswith("Three hours") and block not in (blocks[0], blocks[-1]):
        assert steps


@pytest.mark.parametrize(("plan", "block"), WORK)
def test_a_block_has_time_for_the_exercises_of_its_checkpoint(plan, block):
    """The exercise of a ✓ line, and each name that learners predict or solve, is in a section of the block."""
    sections = block.list_sections()
    known = {
        name: (lesson, heading) for lesson in LESSONS for name, heading in find_sections_of_exercises(lesson).items()
    }
    for name in PASSED.findall(block.find("Checkpoint")):
        assert known[name] in sections, name
    sources = "\n".join(read_source(lesson) for lesson, _ in sections)
    for name in re.findall(r"`([a-zA-Z]+(?:_[a-zA-Z0-9]+)+)`", block.find("Learners") + block.find("You")):
        assert re.search(rf"^(# exercise: {name}|{name} = \.\.\.)$", sources, re.MULTILINE), name


@pytest.mark.parametrize(("plan", "block"), WORK)
def test_a_block_of_three_hours_has_a_task_for_fast_learners(plan, block):
    """The last block of a plan needs none, because everybody speaks."""
    if plan.startswith("Three hours") and block is not PLANS[plan][-1]:
        assert block.find("If early")


def test_learners_vote_before_they_read_the_answer():
    """These questions are about a new case, so they are asked after the section with the rule."""
    asked_after = {
        (lesson, number)
        for lesson in LESSONS
        for number, question in enumerate(list_questions(lesson), 1)
        if question.strip().startswith("Ask after ")
    }
    assert asked_after == {("02", 2), ("13", 2), ("14", 2)}


def test_the_tasks_for_fast_learners_exist_in_the_lessons():
    """The second table of the page names one exercise in code for each lesson from 01 to 13."""
    text = (KIT / "discussion.md").read_text(encoding="utf-8").partition("## If learners finish early")[2]
    table = text[text.index("| lesson | exercises in code |") :].partition("\n\n")[0]
    names = re.findall(r"`(\w+)`", table)
    assert len(names) == 13
    for lesson, name in zip(LESSONS[1:14], names, strict=True):
        assert name in {exercise.name for exercise in EXERCISES_BY_LESSON[lesson]}
        assert f"def {name}(" in read_source(lesson)


def test_what_is_dropped_when_late_is_not_the_checkpoint():
    """A block without the sections that are dropped still has an exercise of its checkpoint, if it had one."""
    for name, blocks in PLANS.items():
        for block in blocks:
            if block.title in BREAKS:
                continue
            dropped = QUOTED.findall(block.find("If late, drop"))
            exercises = PASSED.findall(block.find("Checkpoint"))
            homes = [find_sections_of_exercises(lesson) for lesson in {lesson for lesson, _ in block.list_sections()}]
            kept = [each for each in exercises if not any(home.get(each) in dropped for home in homes)]
            assert kept or not exercises, (name, block.title)


@pytest.mark.parametrize("plan", PLANS)
def test_the_sections_of_a_plan_run_without_the_others(plan):
    """No cell of the named sections needs a cell of a section that the plan leaves out, or drops when it is late."""
    blocks = [block for block in PLANS[plan] if block.title not in BREAKS]
    sections = [section for block in blocks for section in block.list_sections()]
    assert_runs(sections)
    for block in blocks:
        dropped = QUOTED.findall(block.find("If late, drop"))
        assert_runs([(lesson, heading) for lesson, heading in sections if heading not in dropped])


def assert_runs(sections: list[tuple[str, str]]) -> None:
    """Check that each name is defined before it is used, if only the cells of these sections run."""
    for lesson in {lesson for lesson, _ in sections}:
        defined = set(dir(builtins))
        for heading, code in list_code_cells(lesson):
            if (lesson, heading) in sections:
                stored, loaded = find_names(code)
                assert loaded <= defined | stored, (lesson, heading)
                defined |= stored


@functools.cache
def list_code_cells(lesson: str) -> list[tuple[str, str]]:
    """Return the code cells of a lesson, each with the heading above it."""
    cells = []
    heading = ""
    for part in re.split(r"^# %%", read_source(lesson), flags=re.MULTILINE)[1:]:
        kind, _, text = part.partition("\n")
        if "[markdown]" in kind:
            for found in re.findall(r"^# ## (.*)$", text, re.MULTILINE):
                heading = found
        else:
            cells.append((heading, text))
    return cells


@functools.cache
def find_names(code: str) -> tuple[set[str], set[str]]:
    """Return the names that a cell defines, and the names that it uses."""
    stored = set()
    loaded = set()
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                loaded.add(name)
            case ast.Name(id=name) | ast.FunctionDef(name=name) | ast.arg(arg=name) | ast.ExceptHandler(name=name):
                stored.add(name)
            case ast.alias(name=name, asname=short):
                stored.add(short or name.partition(".")[0])
    return stored, loaded


# The first page.


def test_the_minutes_are_those_of_the_lessons():
    """The table has each lesson, its guide, its quiz, and the minutes that learners see in the head of the notebook.

    `tools/notebooks.py` writes them there, by its formula.
    """
    page = (KIT / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\d\d) [^]]+\]\(\.\./\.\./(\S+)\) \| (.*?) \| (.*)$", page, re.MULTILINE)
    assert [number for number, _, _, _ in rows] == LESSONS
    for number, name, minutes, rest in rows:
        with case(number):
            [head] = [cell.source for cell in nbformat.read(ROOT / name, 4).cells if f"# {number} ·" in cell.source]
            assert f" | {minutes} | " in head
            assert f"(lessons/{number}.md)" in rest
            assert f"(quiz/{number}.md)" in rest


def test_the_first_page_leads_to_every_page_and_every_plan():
    page = (KIT / "index.md").read_text(encoding="utf-8")
    for name in {path.name for path in KIT.glob("*.md")} - {"index.md"}:
        assert f"({name})" in page
    for heading in re.findall(r"^## (.*)$", (KIT / "plans.md").read_text(encoding="utf-8"), re.MULTILINE):
        assert f"(plans.md#{heading.lower().replace(' ', '-')})" in page
