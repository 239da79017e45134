"""The process in which tools/net.py runs calls: python -P tools/net_process.py CALLS RESULTS CHECKOUT.

CALLS has one call in JSON on each line: `steps` (the arguments of each command line), `stdin` (a file, or null), and
`out` (the folder into which the steps may write). A line with the answer is appended to RESULTS after each call, so a
call that ends the process loses no other answer. The package is that of CHECKOUT, the first folder in PYTHONPATH.
"""

from __future__ import annotations

import contextlib
import faulthandler
import hashlib
import io
import json
import os
import re
import runpy
import shutil
import sys
import traceback
from pathlib import Path
from typing import Any

SECONDS = re.compile(r'"seconds": [-+.e0-9]+')
BROKEN = 99
"""The exit code if the process cannot go on. Every other one is that of a call."""
LONGEST_CALL = 300
"""After this time in seconds, the process ends, and the call counts as a crash."""


def main(calls: Path, results: Path, checkout: Path) -> None:
    import kafkagroups

    if not Path(kafkagroups.__file__).is_relative_to(checkout):
        raise ImportError(f"expected the package of {checkout}, found {kafkagroups.__file__}")
    with open(results, "a", encoding="utf-8") as file:
        for line in calls.read_text(encoding="utf-8").splitlines():
            faulthandler.dump_traceback_later(LONGEST_CALL, exit=True, file=sys.__stderr__)
            answer = run_call(json.loads(line))
            faulthandler.cancel_dump_traceback_later()
            file.write(json.dumps(answer) + "\n")
            file.flush()


def run_call(call: dict[str, Any]) -> dict[str, Any]:
    """Run the steps of a call. Return their exit codes, their stdout and stderr, and the files that they wrote."""
    streams = {name: io.TextIOWrapper(io.BytesIO(), write_through=True) for name in ("out", "err")}
    folder = Path(call["out"])
    folder.mkdir(parents=True)
    codes = []
    for argv in call["steps"]:
        sys.argv = ["kafkagroups", *argv]
        with open(call["stdin"] or os.devnull, "rb") as stdin:
            sys.stdin = io.TextIOWrapper(stdin)
            with contextlib.redirect_stdout(streams["out"]), contextlib.redirect_stderr(streams["err"]):
                codes.append(run_command())
    texts = {name: stream.buffer.getvalue().decode("utf-8", "replace") for name, stream in streams.items()}
    texts["out"] = SECONDS.sub('"seconds": 0', texts["out"])
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "snapshot" not in path.parts:  # The layout of a snapshot may change in every version.
            texts[f"files.{path.relative_to(folder)}"] = describe(path)
    shutil.rmtree(folder)
    return {"codes": codes, "texts": texts}


def run_command() -> int | str | None:
    """Run the command line of sys.argv. Return its exit code, or the exception that nothing caught."""
    try:
        runpy.run_module("kafkagroups", run_name="__main__")
    except SystemExit as end:
        return end.code
    except BaseException as error:  # A panic of a native engine may be no Exception.
        return f"{type(error).__name__}: {error}"
    return None


def describe(path: Path) -> str:
    """Return the text of a page, the columns and rows of a table, or the size and the hash of another file."""
    if path.suffix == ".html":
        return path.read_text(encoding="utf-8")
    if path.suffix == ".parquet":
        import pyarrow.parquet  # The commands must meet the modules that they import themselves.

        table = pyarrow.parquet.read_table(path)
        rows = sorted(json.dumps(row, default=str) for row in table.to_pylist())  # Each engine has its own order.
        return "\n".join([f"{field.name}: {field.type}" for field in table.schema] + rows)
    data = path.read_bytes()
    return f"{len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}"


if __name__ == "__main__":
    try:
        main(*map(Path, sys.argv[1:]))
    except Exception:  # The calls' own exceptions are answers. This one is a defect of the tool, or of its environment.
        traceback.print_exc()
        sys.exit(BROKEN)
