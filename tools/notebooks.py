"""Build the notebooks of the course from `notebooks/source/`, the only form that people edit.

`python tools/notebooks.py [NN …]` executes each lesson twice, as a learner gets it and solved. It writes
`notebooks/NN_verb.ipynb` and `notebooks/solutions/NN_verb.ipynb`. `--check` only compares the cells, tags and ids of
the committed notebooks with their source. nbval compares the outputs. `--minutes` only prints the estimated minutes of
each lesson, with the counts from which they follow.

A source is in percent format. A cell that begins with `# exercise: NAME` is a starter, and can name several values. In
the solved notebook, the solution of `kafkagroups.course` replaces it, the worked solutions of lesson 14 are shown, and
the links are those of the folder `solutions`. A cell that begins with `# script` only plays a story, so Jupyter and the
site fold its code away. Everything that differs between two runs is left out: random cell ids, widget models, timings,
the interpreter's version.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from kafkagroups.course.exercises.catalog import EXERCISES

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "notebooks" / "source"
FOLDERS = {"learner": ROOT / "notebooks", "solved": ROOT / "notebooks" / "solutions"}
WIDGET = "application/vnd.jupyter.widget-view+json"
MARK = "# exercise: "
FOR_LATER = "## Exercise for later: "
FIGURE = "# figure"
SCRIPT = "# script"
# Commented out in the learner's notebook.
WORKED_SOLUTIONS = ("# course.show_worked_solution(", "# course.show_worked_rescue(")
# The solved notebooks are one folder deeper.
SOLVED_LINKS = {"](pictures/": "](../pictures/", "](../docs/": "](../../docs/", "](solutions/": "]("}
MINUTES = "{{minutes}}"
WORD = re.compile(r"\S*\w\S*")  # Not the lines of a table or the arrows of a drawing.
COLLAPSED = re.compile("<details>.*?</details>", re.DOTALL)
WORDS_PER_MINUTE = 120
MINUTES_PER_EXERCISE = 10
MINUTES_PER_FIGURE = 2


def build(source: Path, kind: str) -> NotebookNode:
    """Return the notebook of a lesson for a learner, or the solved one, not executed."""
    notebook = jupytext.read(source, fmt="py:percent")
    for index, cell in enumerate(notebook.cells):
        cell.id = f"{source.stem[:2]}-{index:02d}"
        if cell.cell_type == "code" and cell.source.startswith(MARK):
            cell.metadata["tags"] = sorted({*cell.metadata.get("tags", ()), "exercise"})
            if kind == "solved":
                solutions = [EXERCISES[name].solution for name in read_names(cell.source)]
                cell.source = "\n".join([cell.source.splitlines()[0], *solutions])
        elif cell.cell_type == "code" and cell.source.startswith(SCRIPT):
            cell.metadata["jupyter"] = {"source_hidden": True}
            cell.metadata["tags"] = [*cell.metadata.get("tags", ()), "hide-input"]
        elif kind == "solved" and cell.source.startswith(WORKED_SOLUTIONS):
            cell.source = cell.source.removeprefix("# ")
        elif kind == "solved" and cell.cell_type == "markdown":
            cell.source = move_links(cell.source)
    notebook.cells[0].source = notebook.cells[0].source.replace(MINUTES, str(estimate_minutes(notebook)))
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    notebook.metadata = NotebookNode(kernelspec=kernel, language_info={"name": "python"})
    return notebook


def read_names(code: str) -> list[str]:
    """Return the names of the exercises of a cell: several, if each one is a value."""
    return code.splitlines()[0].removeprefix(MARK).split(", ")


def move_links(text: str) -> str:
    """Return the text of a lesson with the links of the solved notebook."""
    for learner, solved in SOLVED_LINKS.items():
        text = text.replace(learner, solved)
    return text


def count_work(notebook: NotebookNode) -> tuple[int, int, int]:
    """Return the words, exercises and figures of a lesson.

    Text inside `<details>` elements and the exercise that is for later do not count.
    """
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    words = sum(len(WORD.findall(COLLAPSED.sub("", text))) for text in texts)
    codes = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    exercises = sum(len(read_names(code)) for code in codes if code.startswith(MARK))
    exercises -= sum(text.count(FOR_LATER) for text in texts)
    figures = sum(code.startswith(FIGURE) for code in codes)
    return words, exercises, figures


def estimate_minutes(notebook: NotebookNode) -> int:
    """Return the estimated minutes for a lesson, rounded to 5."""
    words, exercises, figures = count_work(notebook)
    minutes = words / WORDS_PER_MINUTE + MINUTES_PER_EXERCISE * exercises + MINUTES_PER_FIGURE * figures
    return 5 * round(minutes / 5)


def print_minutes() -> None:
    """Print the estimated minutes of each lesson and the counts from which they follow."""
    parts = f"words / {WORDS_PER_MINUTE} + {MINUTES_PER_EXERCISE} per exercise + {MINUTES_PER_FIGURE} per figure"
    print(f"minutes = {parts}, rounded to 5. Collapsed boxes and exercises for later do not count.\n")
    print(f"{'lesson':<22} {'words':>5} {'exercises':>9} {'figures':>7} {'minutes':>7}")
    for source in sorted(SOURCE.glob("[0-9][0-9]_*.py")):
        notebook = jupytext.read(source, fmt="py:percent")
        words, exercises, figures = count_work(notebook)
        print(f"{source.stem:<22} {words:>5} {exercises:>9} {figures:>7} {estimate_minutes(notebook):>7}")


def execute(notebook: NotebookNode, folder: Path) -> None:
    """Run all cells in `folder` and remove what differs between two runs."""
    os.environ["PYTHONHASHSEED"] = "0"
    os.environ["KAFKAGROUPS_PROGRESS"] = ""  # The learner's progress is kept in memory only.
    os.environ["KAFKAGROUPS_BROKER"] = "recorded"  # No broker is started, so that the outputs are the same everywhere.
    client = NotebookClient(
        notebook,
        timeout=300,
        resources={"metadata": {"path": str(folder)}},
        store_widget_state=False,
        record_timing=False,
        coalesce_streams=True,  # A kernel sends printed text in random pieces.
    )
    client.execute()
    notebook.metadata.pop("widgets", None)
    notebook.metadata.language_info = {"name": "python"}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", ()):
            output.get("data", {}).pop(WIDGET, None)


def comparable_cells(notebook: NotebookNode) -> list[tuple[str, str, str, dict]]:
    """Return what the source determines: the notebook's metadata, and type, id, text and metadata of each cell."""
    cells = [(c.cell_type, c.id, c.source.rstrip(), dict(c.metadata)) for c in notebook.cells]
    return [("", "", "", dict(notebook.metadata)), *cells]


def is_current(path: Path, notebook: NotebookNode) -> bool:
    """Return whether a committed notebook equals the one of its source, apart from the outputs."""
    try:
        return comparable_cells(nbformat.read(path, 4)) == comparable_cells(notebook)
    except (OSError, ValueError, nbformat.ValidationError):
        return False


def main(arguments: list[str]) -> int:
    if arguments == ["--minutes"]:
        print_minutes()
        return 0
    check = "--check" in arguments
    wanted = [argument for argument in arguments if argument != "--check"]
    drifted = 0
    lessons = {source.stem for source in SOURCE.glob("[0-9][0-9]_*.py")}
    if unknown := set(wanted) - {lesson[:2] for lesson in lessons}:
        print(f"There is no lesson {', '.join(sorted(unknown))}.")
        return 2
    for folder in FOLDERS.values():
        for path in sorted(folder.glob("*.ipynb")):
            if path.stem not in lessons:
                print(f"{path.relative_to(ROOT)} has no source")
                drifted += 1
    for source in sorted(SOURCE.glob("[0-9][0-9]_*.py")):
        if wanted and source.stem[:2] not in wanted:
            continue
        for kind, folder in FOLDERS.items():
            notebook = build(source, kind)
            path = folder / f"{source.stem}.ipynb"
            name = path.relative_to(ROOT)
            if check:
                same = is_current(path, notebook)
                drifted += not same
                print(f"{name}: {'matches its source' if same else 'does not match its source: run make notebooks'}")
                continue
            print(f"{name} …", flush=True)
            folder.mkdir(exist_ok=True)
            execute(notebook, folder)
            nbformat.validate(notebook)
            path.write_text(nbformat.writes(notebook, version=4) + "\n", encoding="utf-8")
    return int(drifted > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
