"""One way over one topic, in a process of its own: it gets ready, then loads once for every line of its input.

Answers are lines of JSON on what was standard output: {"ready": true}, then {"seconds", "live"} for each load; or
{"missing": …} or {"failed": …}, and it ends. Whatever else anybody prints goes to standard error.
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


def main(way: str, about: str) -> None:
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)

        def say(**answer: object) -> None:
            print(json.dumps(answer), file=out, flush=True)

        try:
            module, function = WAYS[way].function.split(":")
            opened = getattr(importlib.import_module(f"benchmarks.ways.{module}"), function)
            with opened(topics.read(Path(about))) as (load, count):
                say(ready=True)
                for _ in sys.stdin:
                    start = time.perf_counter()
                    result = load()
                    seconds = time.perf_counter() - start
                    say(seconds=result.seconds if isinstance(result, Timed) else seconds, live=count(result))
                    del result  # before the next one begins
        except Missing as missing:
            say(missing=str(missing))
        except Exception as error:
            traceback.print_exc()
            say(failed=f"{type(error).__name__}: {str(error).strip().splitlines()[-1] if str(error) else ''}")


if __name__ == "__main__":
    main(*sys.argv[1:])
