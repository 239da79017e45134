"""Progress displays on a terminal: a bar if the amount of work is known, and a spinner otherwise."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from kafkagroups.cli.output import escape

MIN_BYTES_FOR_BAR = 4 * 1024 * 1024
"""A bar is shown only if at least this number of bytes is read. Smaller logs take too little time."""


class Report(Protocol):
    """A function that is called with the name of a step, the units of work that are done, and the total units."""

    def __call__(self, step: str, done: int, total: int, /) -> None: ...


@contextmanager
def spinner(path: str) -> Iterator[None]:
    """Show that a path is being read, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.text import Text

    # A Text is shown as it is. In a str, rich would read [bold] as markup.
    with Console(stderr=True).status(Text(escape(f"reading {path} …"))):
        yield


@contextmanager
def progress_bar(unit: str = "bytes", min_total: int = MIN_BYTES_FOR_BAR) -> Iterator[Report | None]:
    """Yield a function that shows one progress bar for each step. If stderr is not a terminal, yield None.

    `unit` is the name of the unit that the bars count, such as bytes. A step with a total below `min_total` units has
    no bar. The bars disappear at the end of the `with` block.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress as rich
    from rich.console import Console

    columns: list[rich.ProgressColumn] = [rich.TextColumn("{task.description:>7}"), rich.BarColumn()]
    if unit == "bytes":
        columns += [rich.DownloadColumn(), rich.TransferSpeedColumn()]
    else:
        columns += [rich.MofNCompleteColumn(), rich.TextColumn(unit)]
    columns.append(rich.TimeRemainingColumn())

    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, rich.TaskID] = {}
        last_shown = 0

        def report(step: str, done: int, total: int, /) -> None:
            nonlocal last_shown
            # Drawing takes time, so changes below 1% are not shown. In a new step, `done` is below `last_shown`, so the
            # difference is negative and the step is shown.
            is_small_change = 0 < done - last_shown < total // 100
            if total < min_total or is_small_change:
                return
            if step not in tasks:
                tasks[step] = bars.add_task(step, total=total)
            bars.update(tasks[step], completed=done, total=total)
            last_shown = done

        yield report
