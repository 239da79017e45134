"""The machine and the package versions of a measurement."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("kafkagroups-engine", "pyarrow", "pyspark", "crc32c")


def describe() -> dict:
    """Return the machine's processor, memory, system and versions."""
    return {
        "cpu": _find_in_file(r"model name\s*: (.*)", "/proc/cpuinfo") or platform.processor() or platform.machine(),
        "cpus": os.cpu_count(),
        "memory_bytes": 1024 * int(_find_in_file(r"MemTotal:\s*(\d+)", "/proc/meminfo") or 0),
        "system": f"{platform.system()} {platform.machine()}",
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "packages": {name: _find_version(name) for name in PACKAGES},
        "java": _find_java_version(),
    }


def _find_in_file(pattern: str, file: str) -> str | None:
    try:
        found = re.search(pattern, Path(file).read_text())
    except OSError:
        return None
    return found[1] if found else None


def _find_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _find_java_version() -> str | None:
    from kafkagroups.spark.session import NoJava, find_java

    try:
        return str(find_java().version)
    except NoJava:
        return None
