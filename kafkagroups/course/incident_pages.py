"""Lesson 14: open an incident, and show its worked solution.

An incident's folder stands next to the notebook (`incidents/01-growing-partition/`) and contains the partition folders,
`symptoms.md` and sometimes `chart.svg`, so an incident can also be solved in a terminal.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from IPython.display import display

from kafkagroups.course.exercises.incidents.incident import SEED, Incident, Step, find_incident
from kafkagroups.course.lesson_folders import make_scratch_folder, read_output
from kafkagroups.errors import UsageError

FOLDER = Path("incidents")
"""The folder of all incidents, in the current folder."""
_PARTITION_FOLDERS = "__consumer_offsets-*"


class Page:
    """A Markdown text. JupyterLab formats it, and a terminal shows it as it is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/markdown": self.text, "text/plain": self.text}


def open_incident(name: str) -> Path:
    """Write the log and the page of an incident, show the page, and return the folder relative to the current one.

    Raises UsageError if there is no incident with this name, for example "growing_partition".
    """
    incident = find_incident(name)
    folder = FOLDER / incident.folder_name
    write_incident(incident, folder)
    display(Page(_format_symptoms(incident)))  # type: ignore[no-untyped-call]
    if incident.chart is not None:
        display(incident.chart)  # type: ignore[no-untyped-call]
    display(Page(_format_questions(incident)))  # type: ignore[no-untyped-call]
    return folder


def show_worked_solution(name: str) -> None:
    """Run the commands of an incident's worked solution, and show their outputs, the cause and the prevention.

    The commands run in a new copy of the incident's folder.
    """
    incident = find_incident(name)
    folder = make_scratch_folder() / incident.folder_name
    write_incident(incident, folder)
    parts = []
    for number, step in enumerate(incident.worked_solution, 1):
        parts.append(f"**Step {number}.** {step.text}")
        parts.append(f"```text\n$ {step.command}\n{_run_step(step, folder)}\n```")
    parts += [f"**The cause.** {incident.cause}", f"**Prevention**\n\n{incident.prevention}"]
    display(Page("\n\n".join(parts)))  # type: ignore[no-untyped-call]


def write_incident(incident: Incident, folder: Path) -> None:
    """Write the log and the page of an incident into a folder.

    Raises UsageError if the folder cannot be written, for example because there is a file with its name.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for replica in incident.replicas:
            for old in (folder / replica).glob(_PARTITION_FOLDERS):
                _remove(old)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from None
    incident.write(folder, SEED)
    page = [f"# Incident {incident.number}: {incident.title}", _format_symptoms(incident)]
    if incident.chart is not None:
        (folder / "chart.svg").write_text(incident.chart.draw(), encoding="utf-8")
        page.append(f"![{incident.chart.text}](chart.svg)")
    page.append(_format_questions(incident))
    (folder / "symptoms.md").write_text("\n\n".join(page) + "\n", encoding="utf-8")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _format_symptoms(incident: Incident) -> str:
    place = f"Level {incident.level}. Kafka {incident.kafka}. The log is in `{FOLDER}/{incident.folder_name}`."
    return "\n\n".join(filter(None, (place, incident.complaint, incident.server_log)))


def _format_questions(incident: Incident) -> str:
    questions = (
        f"{number}. {question.text} (`{question.exercise.name}`)"
        for number, question in enumerate(incident.questions, 1)
    )
    return "\n".join(["**Questions**", "", *questions])


def _run_step(step: Step, folder: Path) -> str:
    lines = [line.rstrip() for line in read_output(step.command, folder).splitlines()]
    first = next((number for number, line in enumerate(lines) if " ".join(line.split()).startswith(step.shows)), None)
    if first is None:
        raise UsageError(f"{step.command}: no line of the output begins with {step.shows!r}")
    shown = lines[first : first + step.lines]
    before = ["…"] if first > 0 else []
    after = ["…"] if first + step.lines < len(lines) else []
    return "\n".join([*before, *shown, *after]).rstrip()
