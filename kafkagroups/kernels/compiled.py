"""`kernel`: how a function of this room is compiled, and where its machine code is kept.

Without the GIL, so that threads run side by side; without numba's reference counts (`_nrt`), which would cost more
than the work: so nothing is allocated inside, arrays come in as arguments.

The machine code is kept on disk: beside the sources, or in the user's cache where these cannot be written (they stand
in a zip, as Spark's executors get them); NUMBA_CACHE_DIR comes before both. numba would look only at the file of a
function to tell whether its code is stale; what it calls stands in others, so the stamp is of all sources, and outside
of them the folder is named after it.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import config
from numba.core.caching import CacheImpl, _CacheLocator
from numba.misc.appdirs import AppDirs

HERE = Path(__file__).parent
_sources = sorted((file.name, file.read_bytes()) for file in resources.files(__package__).iterdir() if file.is_file())
_contents = b"".join(content for name, content in _sources if name.endswith(".py"))
SOURCES = hashlib.sha256(_contents + os.environ.get("KAFKAGROUPS_CRC32C", "").encode()).hexdigest()
"""Of what the machine code is made: the sources, and which checksum is wanted."""


class Room(_CacheLocator):
    """Tells numba where the machine code of this room is kept, and of which sources it is."""

    def __init__(self, function: Callable[..., Any], folder: str) -> None:
        self._line = function.__code__.co_firstlineno
        self._folder = folder

    def get_cache_path(self) -> str:
        return self._folder

    def get_source_stamp(self) -> str:
        return SOURCES

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> Room | None:
        folder = _folder()
        return cls(function, folder) if folder is not None and Path(file).parent == HERE else None


CacheImpl._locator_classes.insert(0, Room)


@cache
def _folder() -> str | None:
    """The first folder that can be written; None: nowhere, and all is compiled at every start."""
    user = AppDirs("kafkagroups", appauthor=False).user_cache_dir
    named = f"kernels-{SOURCES[:16]}"
    chosen: str = config.CACHE_DIR  # type: ignore[attr-defined]  # made from the environment
    for folder in [Path(chosen, named)] if chosen else [HERE / "__pycache__", Path(user, named)]:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            return str(folder)
    return None


def kernel(function: Callable[..., Any]) -> Any:
    """Compiles a function when it is first called; it is called as a function."""
    return _compiled(function, "never")


def inlined(function: Callable[..., Any]) -> Any:
    """The same for a small one that is put into its callers."""
    return _compiled(function, "always")


def _compiled(function: Callable[..., Any], inline: str) -> Any:
    dispatcher: Any = njit(nogil=True, inline=inline, _nrt=False)(function)
    if _folder() is not None:  # numba's own choices would fail where ours do
        dispatcher.enable_caching()
    return dispatcher
