"""The files of a workshop: a clean copy of the lessons to hand out, and a summary of the finished notebooks.

    python tools/workshop.py                   writes build/workshop/ (the same as `make workshop`)
    python tools/workshop.py summary FOLDER    prints which exercises each participant solved

The copy comes from the last commit, so it has no progress and no local changes. It has no solved lessons. Its notebooks
have no saved outputs. So an output on a participant's screen shows that this laptop ran the cell, and no saved output
answers a question before it is asked. `make lab` works in the copy.

The summary only reads the saved outputs of the cells with `course.check(…)`. It runs nothing and needs no server. A
participant can write anything into a notebook, so the summary is an overview for the instructor and not a proof.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kafkagroups.course.exercises.catalog import EXERCISES, EXERCISES_BY_LESSON

ROOT = Path(__file__).resolve().parents[1]
WORKSHOP = ROOT / "build" / "workshop"
COPIED = (
    "LICENSE",
    "pyproject.toml",
    "kafkagroups",
    "locks/learn.txt",
    "locks/java.txt",
    "tools/setup.sh",
    "engine",  # With the next three, the set-up builds the native engine.
    "locks/engine.txt",
    "locks/maturin.txt",
    "tools/engine.py",
    "tools/lab.sh",
    "tools/brokers.sh",  # With the next two, lesson 14 starts a real broker.
    "tests/broker/pom.xml",
    "locks/live.txt",
    "tools/jupyter",
    "benchmarks/measured.json",  # A figure of lesson 12 shows these measurements.
    "data",
    "docs/handbook",  # The lessons link to it, and to the pages below.
    "docs/terms.md",
    "docs/operator.md",
    "docs/releases.md",
    "docs/spark.md",
    "notebooks",
    ":(exclude)notebooks/solutions",
    ":(exclude)notebooks/source",
)
README = """# Workshop: how Kafka remembers where every consumer is

Run this in this folder:

```
make lab     # set everything up, check it, and open the lessons in JupyterLab
```

You need make, Python 3.11 to 3.13 and 3 GB of disk, on Debian or macOS. The set-up downloads about 720 MB, so do it
before the workshop. You can repeat the command at any time. If you have a folder `wheelhouse` from your instructor, you
need no network: `WHEELHOUSE=../wheelhouse make lab`, with the path of your folder.

1. Begin with `notebooks/00_start_here.ipynb`.
2. Each lesson has exercises. Run the cell of an exercise again after each change: its last line says if you solved it.
3. Save the notebook (Ctrl + S) when you are finished. The saved file also stores the results of your exercises.
4. Send the finished notebooks to your instructor. The instructor also has the solved lessons.
"""
# A larger file is not a notebook of this course. The largest lesson is smaller than 1 MB.
LARGEST_NOTEBOOK = 20_000_000
A_CHECK = re.compile(r"""^[ \t]*course\.check\([ \t]*["'](\w+)["']""", re.MULTILINE)
A_LESSON = re.compile(r"[-_ ]*\d\d_[a-z_]+.*")

PASSED = "✓"
FAILED = "✗"
NOT_ATTEMPTED = "·"
MARKS = {"✓": PASSED, "✗": FAILED, "!": FAILED, "·": NOT_ATTEMPTED}
"""The mark that the summary prints for each first character of the line that `course.check` prints."""
BEST_FIRST = (PASSED, FAILED, NOT_ATTEMPTED)

Results = dict[str, str]
"""The mark of each exercise that a participant's notebooks contain, by the exercise's name."""


def write_workshop() -> int:
    """Write build/workshop/ again, and return the exit status."""
    command = ["git", "archive", "--format=zip", "HEAD", "--", *COPIED]
    try:
        archive = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
        makefile = subprocess.run(["git", "show", "HEAD:./Makefile"], cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        print("make workshop: the files come from the last commit, so it needs git and a clone", file=sys.stderr)
        return 1
    shutil.rmtree(WORKSHOP, ignore_errors=True)
    with zipfile.ZipFile(io.BytesIO(archive)) as files:
        files.extractall(WORKSHOP)
    (WORKSHOP / "Makefile").write_text(select_rules(makefile.decode()), encoding="utf-8")
    (WORKSHOP / "README.md").write_text(README, encoding="utf-8")
    lessons = sorted((WORKSHOP / "notebooks").glob("*.ipynb"))
    for path in lessons:
        remove_outputs(path)
    print(f"{WORKSHOP.relative_to(ROOT)}: {len(lessons)} lessons. Give each participant a copy of this folder.")
    return 0


def remove_outputs(path: Path) -> None:
    """Remove the saved outputs of a notebook, and the numbers in the brackets of its cells."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = []
            cell["execution_count"] = None
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def select_rules(makefile: str) -> str:
    """Return a Makefile with three rules of the project's Makefile: the set-up of a learner, `lab` and `brokers`."""
    first_line = makefile.partition("\n")[0]
    python = re.search(r"^PY := .*\n", makefile, re.MULTILINE)
    lab = re.search(r"^lab:.*\n(?:\t.*\n)+", makefile, re.MULTILINE)
    brokers = re.search(r"^brokers:.*\n(?:\t.*\n)+", makefile, re.MULTILINE)
    set_up = re.search(r"^# The stamp names its folder\..*?(?=^\.venv/\.develop:)", makefile, re.MULTILINE | re.DOTALL)
    if python is None or lab is None or brokers is None or set_up is None:
        raise SystemExit("tools/workshop.py: the Makefile has changed, so select_rules must change too")
    parts = (f"{first_line}\n.PHONY: lab brokers FORCE\n", python[0], lab[0], brokers[0], set_up[0].rstrip("\n") + "\n")
    return "\n".join(parts)


def summarize(folder: Path) -> int:
    """Print the summary of a folder of finished notebooks, and return the exit status: 1 if a file was not read."""
    if not folder.is_dir():
        print(f"{show(str(folder))}: there is no such folder", file=sys.stderr)
        return 2
    participants: dict[str, Results] = {}
    problems = []
    for path in find_notebooks(folder):
        results = participants.setdefault(name_participant(folder, path), {})
        try:
            add_best(results, read_results(path))
        except (OSError, ValueError, RecursionError) as error:
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
            problems.append(f"{show(str(path.relative_to(folder)))}: not read, {show(reason)}")
    if not participants:
        print(f"{show(str(folder))}: no notebook (*.ipynb) in this folder or its sub-folders", file=sys.stderr)
        return 1
    print_participants(participants)
    print_exercises(participants)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def find_notebooks(folder: Path) -> Iterator[Path]:
    """Yield every notebook below a folder. Links are not followed, because they can lead out of the folder."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(parent, name)
            if name.endswith(".ipynb") and path.is_file() and not path.is_symlink():
                yield path


def name_participant(folder: Path, path: Path) -> str:
    """Return the name of the sub-folder, or the start of a file name: "anna" of anna_03_the_log.ipynb."""
    parts = path.relative_to(folder).parts
    if len(parts) > 1:
        return show(parts[0])
    return show(A_LESSON.sub("", path.stem)) or "(no name)"


def show(text: str) -> str:
    """Return a text of others in one line, without characters that could control a terminal."""
    return "".join(character if character.isprintable() else "?" for character in text)


def read_results(path: Path) -> Results:
    """Return the mark of each exercise that a notebook checks. Raises ValueError if the file is not a notebook."""
    if path.stat().st_size > LARGEST_NOTEBOOK:
        raise ValueError(f"it has more than {LARGEST_NOTEBOOK // 1_000_000} MB")
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError("it is not JSON. Was the file saved and copied completely?") from error
    cells = get(notebook, "cells", list)
    if cells is None:
        raise ValueError("it is JSON, but not a notebook: it has no list of cells")
    results: Results = {}
    for cell in cells:
        if get(cell, "cell_type", str) == "code":
            for name in A_CHECK.findall(read_text(cell, "source")):
                if name in EXERCISES:
                    add_best(results, {name: read_mark(cell, name)})
    return results


def read_mark(cell: Any, name: str) -> str:
    """Return the mark that the saved outputs of a cell show for an exercise. A cell that was not run has none."""
    marks = [NOT_ATTEMPTED]
    for output in get(cell, "outputs", list) or []:
        for line in read_text(output, "text").splitlines():
            if line[1:].startswith(f" {name}:"):
                marks.append(MARKS.get(line[0], NOT_ATTEMPTED))
    return min(marks, key=BEST_FIRST.index)


def add_best(results: Results, others: Results) -> None:
    """Add marks to the results. If an exercise occurs several times, its best mark counts."""
    for name, mark in others.items():
        results[name] = min(mark, results.get(name, NOT_ATTEMPTED), key=BEST_FIRST.index)


def get(value: Any, name: str, kind: type) -> Any:
    """Return a field of a JSON object, or None if there is no field of this type."""
    field = value.get(name) if isinstance(value, dict) else None
    return field if isinstance(field, kind) else None


def read_text(value: Any, name: str) -> str:
    """Return a text of a notebook. It is stored as one string or as a list of lines."""
    lines = get(value, name, list)
    if lines is None:
        return get(value, name, str) or ""
    return "".join(line for line in lines if isinstance(line, str))


def print_participants(participants: dict[str, Results]) -> None:
    """Print one row for each participant, with one mark for each exercise of each lesson."""
    width = max(len(name) for name in [*participants, "participant"])
    print(f"{PASSED} passed   {FAILED} failed   {NOT_ATTEMPTED} not attempted, or the notebook is missing")
    print()
    widths = {lesson: max(3, len(exercises)) for lesson, exercises in EXERCISES_BY_LESSON.items()}
    heads = " ".join(f"{lesson:<{widths[lesson]}}" for lesson in EXERCISES_BY_LESSON)
    print(f"{'participant':<{width}}  {heads}  passed")
    for name, results in participants.items():
        columns = []
        for lesson, exercises in EXERCISES_BY_LESSON.items():
            marks = "".join(results.get(exercise.name, NOT_ATTEMPTED) for exercise in exercises)
            columns.append(f"{marks:<{widths[lesson]}}")
        passed = list(results.values()).count(PASSED)
        print(f"{name:<{width}}  {' '.join(columns)}  {passed} of {len(EXERCISES)}")


def print_exercises(participants: dict[str, Results]) -> None:
    """Print one row for each exercise that the notebooks contain, with the number of participants for each mark."""
    print()
    print(f"{'lesson':<7} {'exercise':<22} {'passed':>6} {'failed':>6} {'not attempted':>13}")
    for lesson, exercises in EXERCISES_BY_LESSON.items():
        for exercise in exercises:
            name = exercise.name
            if any(name in results for results in participants.values()):
                counts = Counter(results.get(name, NOT_ATTEMPTED) for results in participants.values())
                print(f"{lesson:<7} {name:<22} {counts[PASSED]:>6} {counts[FAILED]:>6} {counts[NOT_ATTEMPTED]:>13}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the files of a workshop, or summarize finished notebooks.")
    commands = parser.add_subparsers(dest="command")
    summary = commands.add_parser("summary", help="print which exercises each participant solved")
    summary.add_argument(
        "folder", type=Path, help="one sub-folder per participant, or files like anna_03_the_log.ipynb"
    )
    arguments = parser.parse_args()
    return summarize(arguments.folder) if arguments.command else write_workshop()


if __name__ == "__main__":
    sys.exit(main())
