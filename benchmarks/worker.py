"""The process that loads one topic in one way: it prepares, then loads once for every line on stdin.

It prints lines of JSON on stdout: {"ready": true}, then {"seconds", "live"} for each load. If it prints {"missing": …}
or {"failed": …}, it ends. Everything else that is printed in the process goes to stderr.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path

from benchmarks import topics
from benchmarks.ways import WAYS, Missing, Timed


def main(way: str, description: str) -> None:
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)

        def send(**answer: object) -> None:
            print(json.dumps(answer), file=out, flush=True)

        try:
            module, function = WAYS[way].function.split(":")
            open_way = getattr(importlib.import_module(f"benchmarks.ways.{module}"), function)
            with open_way(topics.read(Path(description))) as (load, count):
                send(ready=True)
                for _ in sys.stdin:
                    start = time.perf_counter()
                    result = load()
                    seconds = time.perf_counter() - start
                    send(seconds=result.seconds if isinstance(result, Timed) else seconds, live=count(result))
                    del result  # Free the memory before the next load.
        except Missing as missing:
            send(missing=str(missing))
        except Exception as error:
            traceback.print_exc()
            send(failed=f"{type(error).__name__}: {str(error).strip().splitlines()[-1] if str(error) else ''}")


if __name__ == "__main__":
    main(*sys.argv[1:])
