"""The learner's progress: which exercises are solved, kept in a file next to the lessons.

The environment variable KAFKAGROUPS_PROGRESS names another file. If it is empty, the progress is kept in memory only.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from kafkagroups.course.exercises.catalog import EXERCISES, EXERCISES_BY_LESSON

FILE_NAME = ".progress.json"
VARIABLE = "KAFKAGROUPS_PROGRESS"
_solved_in_memory: set[str] = set()


def progress() -> None:
    solved = read_solved()
    rows = []
    for lesson, exercises in EXERCISES_BY_LESSON.items():
        done = [exercise.name for exercise in exercises if exercise.name in solved]
        bar = "■" * len(done) + "□" * (len(exercises) - len(done))
        rows.append((lesson, bar, f"{len(done)} of {len(exercises)}"))
    print(f"{len(solved)} of {len(EXERCISES)} exercises solved")
    for lesson, bar, count in rows:
        print(f"lesson {lesson}  {bar:<5} {count}")


def reset() -> None:
    """Forget the progress. The notebooks keep the learner's answers."""
    _solved_in_memory.clear()
    path = _find_file()
    if path is not None:
        path.unlink(missing_ok=True)
    print(f"0 of {len(EXERCISES)} exercises solved")


def read_solved() -> set[str]:
    """A file that cannot be read counts as no progress."""
    path = _find_file()
    if path is None:
        return set(_solved_in_memory)
    try:
        names = json.loads(path.read_text(encoding="utf-8"))["solved"]
        return {name for name in names if name in EXERCISES}
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def note_solved(name: str) -> None:
    """A folder that cannot be written is no reason to stop a lesson."""
    path = _find_file()
    solved = read_solved()
    if name in solved:
        return
    solved.add(name)
    if path is None:
        _solved_in_memory.add(name)
        return
    # Replaced in one step, so that a crash leaves the old file or the new file.
    new = path.with_name(path.name + ".new")
    try:
        new.write_text(json.dumps({"solved": sorted(solved)}, indent=1) + "\n", encoding="utf-8")
        new.replace(path)
    except OSError:
        _solved_in_memory.add(name)


def _find_file() -> Path | None:
    """A notebook runs in its own folder, so the solved notebooks, in `solutions/`, do not count as the learner's
    progress.
    """
    named = os.environ.get(VARIABLE)
    if named is None:
        return Path(FILE_NAME)
    return Path(named) if named else None
