"""Makes the notebooks of the course from `notebooks/source/`, the only form that is written by hand.

`python tools/notebooks.py [NN …]` executes each lesson twice, as a learner gets it and solved, and writes
`notebooks/NN_verb.ipynb` and `notebooks/solutions/NN_verb.ipynb`. `--check` only compares: cells, tags and ids of the
committed notebooks must be those of their source. The outputs are compared by nbval.

A source is in percent format. A cell that begins with `# exercise: NAME` is a starter; the solved notebook has the
solution of `kafkagroups.course` in its place. What would differ from run to run is left out: random cell ids,
widget models, timings, the interpreter's version.
"""

from __future__ import annotations

import os
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


def build(source: Path, kind: str) -> NotebookNode:
    """The cells of a lesson as its learner's or solved notebook has them, not executed."""
    notebook = jupytext.read(source, fmt="py:percent")
    for index, cell in enumerate(notebook.cells):
        cell.id = f"{source.stem[:2]}-{index:02d}"
        if cell.cell_type == "code" and cell.source.startswith(MARK):
            cell.metadata["tags"] = sorted({*cell.metadata.get("tags", ()), "exercise"})
            name = cell.source.splitlines()[0].removeprefix(MARK).strip()
            if kind == "solved":
                cell.source = f"{MARK}{name}\n{EXERCISES[name].solution}"
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    notebook.metadata = NotebookNode(kernelspec=kernel, language_info={"name": "python"})
    return notebook


def execute(notebook: NotebookNode, folder: Path) -> None:
    """Runs all cells in `folder` and strips what would differ from run to run."""
    os.environ["PYTHONHASHSEED"] = "0"
    client = NotebookClient(
        notebook,
        timeout=300,
        resources={"metadata": {"path": str(folder)}},
        store_widget_state=False,
        record_timing=False,
        coalesce_streams=True,  # how often a kernel sends what was printed is chance
    )
    client.execute()
    notebook.metadata.pop("widgets", None)
    notebook.metadata.language_info = {"name": "python"}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", ()):
            output.get("data", {}).pop(WIDGET, None)


def essence(notebook: NotebookNode) -> list[tuple[str, str, str, dict]]:
    """What a source decides of a notebook: its metadata, and kind, id, text and metadata of each cell."""
    cells = [(c.cell_type, c.id, c.source.rstrip(), dict(c.metadata)) for c in notebook.cells]
    return [("", "", "", dict(notebook.metadata)), *cells]


def is_as(path: Path, notebook: NotebookNode) -> bool:
    """Whether a committed notebook is what its source makes, its outputs aside."""
    try:
        return essence(nbformat.read(path, 4)) == essence(notebook)
    except (OSError, ValueError, nbformat.ValidationError):
        return False


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    wanted = [argument for argument in arguments if argument != "--check"]
    drifted = 0
    lessons = {source.stem for source in SOURCE.glob("[0-9][0-9]_*.py")}
    if unknown := set(wanted) - {lesson[:2] for lesson in lessons}:
        print(f"there is no lesson {', '.join(sorted(unknown))}")
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
                same = is_as(path, notebook)
                drifted += not same
                print(f"{name}: {'as its source' if same else 'is not its source: make notebooks'}")
                continue
            print(f"{name} …", flush=True)
            folder.mkdir(exist_ok=True)
            execute(notebook, folder)
            nbformat.validate(notebook)
            path.write_text(nbformat.writes(notebook, version=4) + "\n", encoding="utf-8")
    return int(drifted > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
