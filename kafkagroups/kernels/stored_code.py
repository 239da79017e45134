"""The file that stores the machine code of the kernels, so that later processes need not compile them.

A folder contains one file for each Python version, CPU and settings of the compiler: `kernels.<Python>.<hash>.code`.
All numbers are little-endian.

| bytes | content |
|---|---|
| 8 | MAGIC |
| 32 | SHA-256 of all bytes after this field |
| 4 | size of the table in bytes |
| table | JSON: {"key": KEY, "functions": [[symbol, result type, size in bytes]...]} |
| rest | the object files of the functions, one after another |

A symbol names a kernel and the types of its arguments (compiled.py). KEY describes everything else that the machine
code depends on: the source files of this package, and the versions of numba, LLVM and Python. If the magic, the
checksum or the key of a file is wrong, the file is ignored, and the next save replaces it. The checksum protects
against damage, not against attackers: whoever can write into the folder can run code, as with Python's `__pycache__`.

The machine code is in these folders:

1. if the environment variable NUMBA_CACHE_DIR is set: a subfolder of the folder that it names, and no other folder,
2. the folder `__pycache__` of this package,
3. the user's cache folder. Spark's executors use this folder, because they receive the package as a zip.

A process reads the files of all these folders, and writes into the first folder that is writable. A folder outside the
package has a hash of the source files in its name, because several versions of the package can use it.

A save writes a new file and renames it, so a reader never sees a part of a file. If two processes save at the same
time, one save can replace the other. The functions of the replaced save are then compiled again later.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from contextlib import suppress
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from llvmlite import __version__ as llvmlite_version, binding

from kafkagroups.kernels.arguments import ResultType

FOLDER = Path(__file__).parent
MAGIC = b"KGCODE1\n"
_CHECKSUM_START = len(MAGIC)
_CHECKED_START = _CHECKSUM_START + 32
_TABLE_START = _CHECKED_START + 4


class MachineCode(NamedTuple):
    """The machine code of a kernel for certain types of arguments: the type of its result, and an object file."""

    result_type: ResultType
    object_file: bytes


FILES_OF_CONSTANTS = ("int_limits.py", "log/batch.py", "log/frames.py", "log/record_batch.py")
"""The files outside this package whose constants are in the machine code."""


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _hash_sources() -> str:
    """Return a hash of the source files of this package, and of the files whose constants the kernels use.

    The files can be in a zip.
    """
    folder: Any = FOLDER
    root: Any = FOLDER.parent
    if not FOLDER.is_dir():
        from importlib import resources

        folder = resources.files(__package__)
        root = resources.files("kafkagroups")
    contents = sorted((file.name, file.read_bytes()) for file in folder.iterdir() if file.name.endswith(".py"))
    constants = [root.joinpath(*path.split("/")).read_bytes() for path in FILES_OF_CONSTANTS]
    return hashlib.sha256(b"".join([content for _, content in contents] + constants)).hexdigest()


def _read_numba_version() -> str:
    """Return a text that differs between versions of numba, without importing numba.

    Raise ImportError if numba is not installed.
    """
    spec = find_spec("numba")
    if spec is None or spec.origin is None:
        raise ImportError("numba is not installed")
    with suppress(OSError):
        return Path(spec.origin).with_name("_version.py").read_text()
    from numba import __version__

    return __version__


def _describe_machine() -> str:
    """Return the CPU and the settings that the machine code depends on."""
    settings = [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith(("NUMBA_", "KAFKAGROUPS_CRC32C")) and name != "NUMBA_CACHE_DIR"
    ]
    cpu = [binding.get_process_triple(), binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()]
    return "\n".join(cpu + settings)


SOURCES_HASH = _hash_sources()
KEY = _hash_text("\n".join([SOURCES_HASH, _read_numba_version(), llvmlite_version, sys.version, _describe_machine()]))
FILE_NAME = f"kernels.{sys.implementation.cache_tag}.{_hash_text(_describe_machine())}.code"


class Store:
    """The stored machine code of all kernels. Callers must prevent simultaneous calls from several threads.

    `fetched` and `added` are the symbols of the functions that this process has read, and of those it has compiled.
    """

    def __init__(self) -> None:
        self.fetched: list[str] = []
        self.added: list[str] = []

    @cached_property
    def functions(self) -> dict[str, MachineCode]:
        """The machine code by symbol. It is read when this property is first used."""
        functions: dict[str, MachineCode] = {}
        for folder in list_folders():
            functions = _read(folder / FILE_NAME) | functions
        return functions

    def find(self, symbol: str) -> MachineCode | None:
        """Return the machine code of a function, or None if it is not stored."""
        machine_code = self.functions.get(symbol)
        if machine_code is not None:
            self.fetched.append(symbol)
        return machine_code

    def add(self, symbol: str, machine_code: MachineCode) -> None:
        """Store the machine code of a function. If no folder is writable, only this process has the code."""
        self.added.append(symbol)
        self.functions[symbol] = machine_code
        for folder in list_folders():
            with suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
                _write(folder / FILE_NAME, _read(folder / FILE_NAME) | self.functions)
                return


STORE = Store()
"""The store of this process."""


def list_folders() -> list[Path]:
    """Return the folders of the machine code, as the module's docstring explains."""
    versioned_name = f"kernels-{SOURCES_HASH[:16]}"
    path_from_environment = os.environ.get("NUMBA_CACHE_DIR")
    if path_from_environment:
        return [Path(path_from_environment, versioned_name)]
    folders = [FOLDER / "__pycache__"]
    with suppress(RuntimeError):  # The user has no home folder.
        folders.append(_user_cache_folder() / "kafkagroups" / versioned_name)
    return folders


def _user_cache_folder() -> Path:
    """Return the folder where the operating system expects a user's caches."""
    if sys.platform == "win32" and "LOCALAPPDATA" in os.environ:
        return Path(os.environ["LOCALAPPDATA"])
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _read(file: Path) -> dict[str, MachineCode]:
    """Return the functions in a file. The result is empty if the file is missing, damaged or outdated."""
    try:
        content = file.read_bytes()
    except OSError:
        return {}
    checksum = hashlib.sha256(memoryview(content)[_CHECKED_START:]).digest()
    if content[:_CHECKSUM_START] != MAGIC or content[_CHECKSUM_START:_CHECKED_START] != checksum:
        return {}
    table_end = _TABLE_START + int.from_bytes(content[_CHECKED_START:_TABLE_START], "little")
    table = json.loads(content[_TABLE_START:table_end])
    if table["key"] != KEY:
        return {}
    functions = {}
    position = table_end
    for symbol, result_type, size in table["functions"]:
        functions[symbol] = MachineCode(result_type, content[position : position + size])
        position += size
    return functions


def _write(file: Path, functions: dict[str, MachineCode]) -> None:
    """Replace a file by a file with these functions."""
    entries = [[symbol, code.result_type, len(code.object_file)] for symbol, code in functions.items()]
    table = json.dumps({"key": KEY, "functions": entries}).encode()
    object_files = [code.object_file for code in functions.values()]
    checked = b"".join([len(table).to_bytes(4, "little"), table, *object_files])
    temporary = file.with_name(f"{file.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        temporary.write_bytes(MAGIC + hashlib.sha256(checked).digest() + checked)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
