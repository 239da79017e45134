"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("numpy", "numba", "pyarrow", "pyspark", "crc32c", "kafka-python", "aiokafka")


def describe() -> dict:
    return {
        "cpu": _first(r"model name\s*: (.*)", "/proc/cpuinfo") or platform.processor() or platform.machine(),
        "cpus": os.cpu_count(),
        "memory_bytes": 1024 * int(_first(r"MemTotal:\s*(\d+)", "/proc/meminfo") or 0),
        "system": f"{platform.system()} {platform.machine()}",
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "java": _java(),
    }


def _first(pattern: str, file: str) -> str | None:
    try:
        found = re.search(pattern, Path(file).read_text())
    except OSError:
        return None
    return found[1] if found else None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _java() -> str | None:
    from kafkagroups.spark.java import NoJava, find_java

    try:
        return str(find_java().version)
    except NoJava:
        return None
