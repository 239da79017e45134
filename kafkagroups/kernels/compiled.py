"""How numba compiles the functions of this package, and where the machine code is cached.

A function with the decorator `kernel` or `inlined` is called a kernel. Kernels run without the GIL (Python's global
lock), so threads run in parallel. Kernels also run without numba's reference counts (`_nrt`), because counting would
cost more time than the work itself. So kernels cannot allocate memory: every array that a kernel needs is an argument.

The machine code is cached in the first of these folders that is writable:

1. if the environment variable NUMBA_CACHE_DIR is set: a subfolder of the folder that it names, and no other folder,
2. the folder `__pycache__` of this package,
3. the user's cache folder. Spark's executors use this folder, because they receive the package as a zip.

Numba stores a stamp of the source with the machine code, and compiles again if the stamp has changed. Numba's own stamp
describes only the file of the kernel, but a kernel calls kernels of other files. So this module uses a hash of all
source files as the stamp. A cache folder outside the package has this hash in its name.
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

FOLDER = Path(__file__).parent
_source_files = sorted(
    (file.name, file.read_bytes()) for file in resources.files(__package__).iterdir() if file.is_file()
)
_source_bytes = b"".join(content for name, content in _source_files if name.endswith(".py"))
SOURCES_HASH = hashlib.sha256(_source_bytes + os.environ.get("KAFKAGROUPS_CRC32C", "").encode()).hexdigest()
"""The stamp of the machine code: a hash of the source files and of the setting that chooses a kernel in crc32c.py."""


class MachineCodeLocator(_CacheLocator):
    """Gives numba the folder of the cached machine code, and the stamp of the source files."""

    def __init__(self, function: Callable[..., Any], folder: str) -> None:
        self._line = function.__code__.co_firstlineno
        self._cache_folder = folder

    def get_cache_path(self) -> str:
        return self._cache_folder

    def get_source_stamp(self) -> str:
        return SOURCES_HASH

    def get_disambiguator(self) -> str:
        """Return the function's line number, which distinguishes functions with the same name."""
        return str(self._line)

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> MachineCodeLocator | None:
        """Return a locator for a kernel. For other functions return None, so that numba uses its own locators."""
        folder = _cache_folder()
        return cls(function, folder) if folder is not None and Path(file).parent == FOLDER else None


# Numba uses the first locator class whose `from_function` does not return None.
CacheImpl._locator_classes.insert(0, MachineCodeLocator)


@cache
def _cache_folder() -> str | None:
    """Return the folder for the machine code, as the module's docstring explains.

    None means that no possible folder is writable. The kernels are then compiled at every start.
    """
    user_cache = AppDirs("kafkagroups", appauthor=False).user_cache_dir
    versioned_name = f"kernels-{SOURCES_HASH[:16]}"
    path_from_environment: str = config.CACHE_DIR  # type: ignore[attr-defined]  # numba sets it at run time.
    folders = [FOLDER / "__pycache__", Path(user_cache, versioned_name)]
    if path_from_environment:
        folders = [Path(path_from_environment, versioned_name)]
    for folder in folders:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            return str(folder)
    return None


def kernel(function: Callable[..., Any]) -> Any:
    """Return the function as a kernel, which is compiled to machine code when it is first called."""
    return _compile(function, "never")


def inlined(function: Callable[..., Any]) -> Any:
    """Return the function as a kernel that is compiled as a part of each kernel that calls it."""
    return _compile(function, "always")


def _compile(function: Callable[..., Any], inline: str) -> Any:
    """Return the function as a kernel. `inline` is numba's option of the same name: "never" or "always"."""
    dispatcher: Any = njit(nogil=True, inline=inline, _nrt=False)(function)
    # Without a writable folder, enable_caching would raise an error.
    if _cache_folder() is not None:
        dispatcher.enable_caching()
    return dispatcher
