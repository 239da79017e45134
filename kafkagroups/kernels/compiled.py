"""`kernel` and `inlined`: how numba compiles the functions of this package, and where their machine code is kept.

Kernels run without the GIL, so that threads run in parallel. They run without numba's reference counts (`_nrt`), which
would cost more than the work. So kernels allocate nothing; arrays are arguments.

The machine code is kept on disk, next to the sources. If that folder cannot be written (Spark's executors get the
package as a zip), it is kept in the user's cache. NUMBA_CACHE_DIR comes before both. numba looks only at the file of a
function to decide whether its code is stale, but a kernel calls kernels of other files. So the stamp covers all
sources, and a folder outside the package is named after it.
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
"""What the machine code is made of: the sources, and the choice of the checksum."""


class MachineCode(_CacheLocator):
    """Tells numba where the machine code of this package is kept, and from which sources it was made."""

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
    def from_function(cls, function: Callable[..., Any], file: str) -> MachineCode | None:
        folder = _folder()
        return cls(function, folder) if folder is not None and Path(file).parent == HERE else None


CacheImpl._locator_classes.insert(0, MachineCode)


@cache
def _folder() -> str | None:
    """Return the first folder that can be written. None means that kernels are compiled at every start."""
    user = AppDirs("kafkagroups", appauthor=False).user_cache_dir
    named = f"kernels-{SOURCES[:16]}"
    chosen: str = config.CACHE_DIR  # type: ignore[attr-defined]  # numba makes it from the environment.
    for folder in [Path(chosen, named)] if chosen else [HERE / "__pycache__", Path(user, named)]:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            return str(folder)
    return None


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function when it is first called."""
    return _compiled(function, "never")


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a small function into its callers."""
    return _compiled(function, "always")


def _compiled(function: Callable[..., Any], inline: str) -> Any:
    dispatcher: Any = njit(nogil=True, inline=inline, _nrt=False)(function)
    if _folder() is not None:  # Otherwise numba would look for another folder, and fail too.
        dispatcher.enable_caching()
    return dispatcher
