"""Compiles the kernels once, before two test workers would compile them twice: `python -m tests.kernels.compile`."""

import io
import tempfile
from contextlib import redirect_stdout

import kafkagroups as kg
from kafkagroups.cli import main
from tests.captured import captured

CLEANER_CASE = captured("cleaner") / "cleaner" / "cases" / "03-overwrite-inside-batch"


def compile_kernels() -> None:
    """Load logs of several codecs and both coordinators, with all questions about them, and a snapshot that resumes.

    Clean a log, too.
    """
    runs = captured("runs") / "runs"
    for run, coordinator in (("4.3.1-main", "new"), ("1.0.1-gzip", "classic"), ("1.0.1-txn", "classic")):
        groups = kg.load(runs / run / "log", coordinator, engine="compiled")
        groups.offsets_frame()
        kg.explain(runs / run / "log", "a group", coordinator=coordinator, engine="compiled")
        kg.stats(runs / run / "log", coordinator=coordinator, engine="compiled")
        for table in ("fates", "records"):
            kg.record_table(runs / run / "log", table, coordinator=coordinator, engine="compiled").read_all()
    with tempfile.TemporaryDirectory() as folder:
        kg.compact(CLEANER_CASE / "before", f"{folder}/out", engine="compiled")
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        for _ in range(2):
            main(["load", str(runs / "4.3.1-main" / "log"), "--snapshot", f"{folder}/state", "--json"])


if __name__ == "__main__":
    compile_kernels()
