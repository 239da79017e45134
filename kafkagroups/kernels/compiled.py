"""`kernel`: how a function of this room is compiled.

Without the GIL, so that threads run side by side; without numba's reference counts (`_nrt`), which would cost more
than the work: so nothing is allocated inside, arrays come in as arguments. The machine code is kept on disk. numba
looks only at the file of a function to tell whether that is stale; what it calls stands in others, so all are in the
stamp.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba import njit

SOURCES = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(Path(__file__).parent.glob("*.py")))).hexdigest()


def kernel(function: Callable[..., Any]) -> Any:
    """Compiles a function when it is first called; it is called as a function."""
    return _compiled(function, "never")


def inlined(function: Callable[..., Any]) -> Any:
    """The same for a small one that is put into its callers."""
    return _compiled(function, "always")


def _compiled(function: Callable[..., Any], inline: str) -> Any:
    dispatcher: Any = njit(nogil=True, inline=inline, _nrt=False)(function)
    with suppress(RuntimeError, AttributeError):  # nowhere to keep it: it is compiled at every start
        dispatcher.enable_caching()
        cache = dispatcher._cache._cache_file
        cache._source_stamp = (cache._source_stamp, SOURCES)
    return dispatcher
