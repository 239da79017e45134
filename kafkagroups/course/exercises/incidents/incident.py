"""The incidents of lesson 14: logs with a cause to find.

`slow_failover.md` is a page for people: what was seen, the questions, the hints, the worked solution, its conclusions.
`slow_failover.py` has the function `write`, which makes the log.
"""

from __future__ import annotations

import re
import shutil
from ast import literal_eval
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from importlib import import_module
from operator import attrgetter
from pathlib import Path

from IPython.display import Markdown, display

from kafkagroups.course.exercises.exercise import Exercise, read_exercise, read_rows, read_sections
from kafkagroups.course.figures.marks import Arrow, Box, Label, Mark, Scene, Tone, draw_svg, encode_data_address
from kafkagroups.course.lesson_folders import make_scratch_folder, read_output
from kafkagroups.errors import UsageError

SEED = 14
"""The seed of the logs that `course.open_incident` writes."""
CONCLUSIONS = ("In short", "Do now, and do not", "Prevention")
"""The sections of a worked solution around its steps, which follow the first one."""
_LINES = re.compile(r"(\d+) lines? from `(.+?)`")
_STEP = re.compile(r"### (.+?)\n\n```sh\n(.+?)\n```\n\nShown of the output: (.+?)\n\n(.+?)(?=\n\n### |$)", re.DOTALL)
# The chart of an incident, in pixels of the picture.
_HEIGHT = 220
_LEFT = 10
_RIGHT = 508
_TOP = 56
_COLUMN = 32
_BOTTOM = 176


@dataclass(frozen=True, repr=False)
class Chart:
    """Columns. The column of the time `call` has the colour of an error, and a dashed line stands at the `limit`."""

    title: str
    times: tuple[str, ...]
    values: tuple[float | None, ...]
    call: str = ""
    limit: tuple[str, float | None] | None = None

    def __repr__(self) -> str:
        pairs = zip(self.times, self.values, strict=True)
        points = (f"{time} {'nothing' if value is None else format(value, ',g')}" for time, value in pairs)
        limit = "; {}: {:,g}".format(*self.limit) if self.limit else ""
        return f"{self.title}: " + ", ".join(points) + limit

    def draw(self) -> str:
        largest = max(value for value in self.values if value is not None)
        distance = (_RIGHT - _LEFT) / len(self.times)
        marks: list[Mark] = [
            Label("title", 10, 20, self.title, is_bold=True),
            Arrow("base", _LEFT, _BOTTOM, _RIGHT, _BOTTOM, Tone.MUTED, has_head=False),
        ]
        # Columns, and no line: the times between two values differ.
        for number, (time, value) in enumerate(zip(self.times, self.values, strict=True)):
            x = _LEFT + (number + 0.5) * distance
            height = (value or 0) / largest * (_BOTTOM - _TOP)
            shown = "nothing" if value is None else format(value, ",g")
            is_call = time == self.call
            tone = Tone.ERROR if is_call else Tone.NEW
            value_y = _BOTTOM - height + (14 if self.limit else -6)
            marks += [
                Label(f"time {number}", x, _BOTTOM + 20, time, "middle", Tone.MUTED, is_bold=is_call),
                Box(f"column {number}", x - _COLUMN / 2, _BOTTOM - height, _COLUMN, height, tone=tone),
                Label(f"value {number}", x, value_y, shown, "middle", is_bold=is_call),
            ]
        if self.limit is not None:
            name, value = self.limit
            y = _BOTTOM - (value or 0) / largest * (_BOTTOM - _TOP)
            marks.append(Arrow("limit", _LEFT, y, _RIGHT, y, Tone.ERROR, is_dashed=True, has_head=False))
            marks.append(Label("limit name", _RIGHT + 4, y + 4, name, tone=Tone.ERROR, size=11))
        return draw_svg(Scene(tuple(marks), self.title, ()), _HEIGHT, repr(self))

    def _repr_html_(self) -> str:
        return f'<img alt="{escape(repr(self))}" src="{encode_data_address(self.draw())}">'


@dataclass(frozen=True)
class Step:
    """One question, the command that answers it, and what its output proves.

    The output is shortened to `lines`, which are pairs: how many lines, and how the first of them begins.
    """

    question: str
    command: str
    lines: tuple[tuple[str, str], ...]
    proof: str


@dataclass(frozen=True)
class Incident:
    """One of the incidents, which are numbered from 1 to 10 in the order of their levels.

    Level 1: the first commands show the cause. 2: two answers have to be compared. 3: no single output shows it.
    `complaint` is what people saw, without the cause, and `server_log` lines of the broker's or the client's log, or
    "". `write` writes the log into a new folder, and the same seed gives the same bytes. `replicas` are the subfolders
    with the log of one broker each; "" is the incident's folder itself. `conclusions` are the sections of the
    worked solution around its steps, by their titles, and `questions` the exercises, by the text of their question.
    """

    number: int
    name: str
    level: int
    title: str
    kafka: str
    complaint: str
    server_log: str
    chart: Chart | None
    questions: dict[str, Exercise]
    write: Callable[[Path, int], None]
    worked_solution: tuple[Step, ...]
    conclusions: dict[str, str]
    replicas: tuple[str, ...]

    @property
    def folder_name(self) -> str:
        return f"{self.number:02d}-{self.name.replace('_', '-')}"


def read_incident(page: Path) -> Incident:
    head, sections = read_sections(page)
    title, facts = head.removeprefix("# ").split("\n", 1)
    fact = dict(re.findall(r"^- (\w+): (.+)$", facts, re.MULTILINE))
    questions = {}
    for name, section in sections.items():
        if name.startswith("Question "):
            text, _ = section.split("\n\nAnswer: ", 1)
            question, own_hints = re.split(r"\n\n(?=2\. )", section)  # The first hint is that of the incident.
            with_hints = f"{question}\n\n{sections['Hints']}\n{own_hints}"
            questions[text] = read_exercise(name.removeprefix("Question "), with_hints)
    return Incident(
        int(fact["number"]),
        page.stem,
        int(fact["level"]),
        title,
        fact["kafka"],
        sections["Complaint"],
        sections.get("Server log", ""),
        _read_chart(sections["Chart"]) if "Chart" in sections else None,
        questions,
        import_module(f"{__package__}.{page.stem}").write,
        tuple(
            Step(question, command, tuple(_LINES.findall(lines)), proof)
            for question, command, lines, proof in _STEP.findall(sections["Worked solution"])
        ),
        {title: sections[title] for title in CONCLUSIONS},
        tuple(fact.get("replicas", "").split(", ")),
    )


def _read_chart(section: str) -> Chart:
    """Read a table of times and values. The time of the call is bold, and the name of a limit is in italics."""
    title, table = section.split("\n", 1)
    rows = [(name, literal_eval(value) if value else None) for name, value in read_rows(table)]
    call = next((name.strip("*") for name, _ in rows if name.startswith("**")), "")
    limit = next(((name.strip("_"), value) for name, value in rows if name.startswith("_")), None)
    times, values = zip(*(row for row in rows if not row[0].startswith("_")), strict=True)
    return Chart(title, tuple(time.strip("*") for time in times), values, call, limit)


INCIDENTS: tuple[Incident, ...] = tuple(
    sorted(map(read_incident, Path(__file__).parent.glob("*.md")), key=attrgetter("number"))
)


def find_incident(name: str) -> Incident:
    incidents = {incident.name: incident for incident in INCIDENTS}
    if name not in incidents:
        raise UsageError(f"there is no incident {name!r}; the incidents are {', '.join(incidents)}")
    return incidents[name]


FOLDER = Path("incidents")
"""The folder of all incidents, in the current folder."""
_PARTITION_FOLDERS = "__consumer_offsets-*"


class Page(Markdown):
    """A Markdown text. JupyterLab formats it, and a terminal shows it as it is."""

    def __repr__(self) -> str:
        return str(self.data)


def open_incident(name: str) -> Path:
    """Write the log and the page of an incident, show the page, and return the folder relative to the current one.

    Raises UsageError if there is no incident with this name, for example "growing_partition".
    """
    incident = find_incident(name)
    folder = FOLDER / incident.folder_name
    write_incident(incident, folder)
    symptoms, questions = map(Page, (_format_symptoms(incident), _format_questions(incident)))
    display(*filter(None, (symptoms, incident.chart, questions)))  # type: ignore[no-untyped-call]
    return folder


def show_worked_solution(name: str) -> None:
    """Show the cause of an incident, the commands that prove it and what they print, and what to do.

    The commands run in a new copy of the incident's folder.
    """
    incident = find_incident(name)
    folder = make_scratch_folder() / incident.folder_name
    write_incident(incident, folder)
    parts = [f"**{title}**\n\n{text}" for title, text in incident.conclusions.items()]
    # "In short" comes first, so that a reader knows what the steps prove.
    for number, step in enumerate(incident.worked_solution, 1):
        output = f"```text\n$ {step.command}\n{_run_step(step, folder)}\n```"
        parts.insert(number, f"**Step {number}: {step.question}**\n\n{output}\n\n{step.proof}")
    display(Page("\n\n".join(parts)))  # type: ignore[no-untyped-call]


def write_incident(incident: Incident, folder: Path) -> None:
    """Write the log and the page of an incident into a folder, instead of the partitions and cleaned copies in it.

    Raises UsageError if the folder cannot be written, for example because there is a file with its name.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in sorted(folder.rglob(_PARTITION_FOLDERS)):
            if old.is_dir() and not old.is_symlink():
                shutil.rmtree(old)
            else:
                old.unlink()
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from None
    incident.write(folder, SEED)
    page = [f"# Incident {incident.number}: {incident.title}", _format_symptoms(incident)]
    if incident.chart is not None:
        (folder / "chart.svg").write_text(incident.chart.draw(), encoding="utf-8")
        page.append(f"![{incident.chart!r}](chart.svg)")
    page.append(_format_questions(incident))
    (folder / "symptoms.md").write_text("\n\n".join(page) + "\n", encoding="utf-8")


def _format_symptoms(incident: Incident) -> str:
    place = f"Level {incident.level}. Kafka {incident.kafka}. The log is in `{FOLDER}/{incident.folder_name}`."
    return "\n\n".join(filter(None, (place, incident.complaint, incident.server_log)))


def _format_questions(incident: Incident) -> str:
    numbered = enumerate(incident.questions.items(), 1)
    questions = [f"{number}. {text} (`{exercise.name}`)" for number, (text, exercise) in numbered]
    return "\n".join(["**Questions**", "", *questions])


def _run_step(step: Step, folder: Path) -> str:
    lines = [line.rstrip() for line in read_output(step.command, folder).splitlines()]
    shown: list[str] = []
    end = 0
    for count, start in step.lines:
        first = next((n for n in range(end, len(lines)) if " ".join(lines[n].split()).startswith(start)), None)
        if first is None:
            raise UsageError(f"{step.command}: no line of the output begins with {start!r}")
        if first > end:
            shown.append("… (lines left out)")
        end = first + int(count)
        shown += lines[first:end]
    return "\n".join([*shown, "… (lines left out)"] if end < len(lines) else shown)
