"""The native engine, for make: what has to happen around `cargo` in engine/.

    python tools/engine.py wheel FOLDER     builds the engine's wheel into FOLDER, and removes older ones there
                                            (--portable: on Linux, a wheel for old systems too, with zig's C library)
    python tools/engine.py sdist FOLDER     writes the engine's source distribution into FOLDER
    python tools/engine.py lint             cargo fmt --check, and clippy, which must find nothing
    python tools/engine.py test             the tests of the crate, engine/tests/
    python tools/engine.py pin [--upgrade]  writes locks/engine.txt from the dependencies in engine/Cargo.toml

locks/engine.txt has one line for each crate: its name, its version, the checksum of its archive, and the crates that it
needs (`name`, or `name@version` where several versions are locked). The line that begins with `.` is the engine itself.
A Cargo.lock holds the same, and for each crate the address of the registry. That address is cargo's own affair, so
Cargo.lock is not committed. Each command writes it again from the pins, and then cargo has to keep to it (`--locked`).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENGINE = ROOT / "engine"
CARGO_LOCK = ENGINE / "Cargo.lock"
PINS = ROOT / "locks" / "engine.txt"
HEADER = "# Written by `make locks`: crate, version, checksum, and the crates that it needs. See tools/engine.py.\n"
THE_ENGINE = [".", "-", "-"]
"""Stands for the name, the version and the checksum of the engine itself. The first two are in Cargo.toml."""

# One target folder and one profile for all commands, so that each dependency is compiled once.
BUILD = ("--release", "--locked")
WITH_PYTHON = ("--features", "python")
PORTABLE = ("--zig", "--compatibility", "manylinux_2_17")


class Failed(Exception):
    """A command failed, and has said why."""


def run(*command: str | Path) -> None:
    """Run a command in engine/, where cargo reads the project's settings. Raise Failed if it fails."""
    # Cargo would look for the job server of a make that did not offer it one.
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "CARGO_MAKEFLAGS")}
    env["PYO3_PYTHON"] = sys.executable
    # maturin looks for zig there, which is a package of Python.
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", os.defpath)])
    if subprocess.run(command, cwd=ENGINE, env=env, check=False).returncode:
        raise Failed


def has_cargo(subcommand: str = "version") -> bool:
    """Return whether this machine has cargo, with a subcommand. A shim of rustup may exist without it."""
    try:
        command = ["cargo", subcommand, *(["--version"] if subcommand != "version" else [])]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def read_manifest() -> tuple[str, str, str]:
    """Return the engine's name and version, and the registry of its dependencies as cargo writes it in a Cargo.lock.

    Raise Failed if this machine's Rust is too old, which might spend minutes on the registry's index before it noticed.
    """
    command = ["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"]
    done = subprocess.run(command, cwd=ENGINE, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise Failed
    [package] = json.loads(done.stdout)["packages"]
    needed = package["rust_version"]
    found = subprocess.run(["rustc", "--version"], cwd=ENGINE, capture_output=True, text=True, check=False).stdout
    if parse_version(found.partition(" ")[2]) < parse_version(needed):
        print(f"error: the engine needs Rust {needed}, and here is {found.strip()}", file=sys.stderr)
        raise Failed
    [registry] = {dependency["source"] for dependency in package["dependencies"]}
    return package["name"], package["version"], registry


def parse_version(text: str) -> tuple[int, ...]:
    """Return the major and the minor version: (1, 85) of "1.85.0 (4d91de4e4 2025-02-17)"."""
    return tuple(int(number) for number in re.findall(r"\d+", text)[:2])


def write_cargo_lock() -> None:
    """Write engine/Cargo.lock from locks/engine.txt."""
    engine, engine_version, registry = read_manifest()
    # Version 3 of the format is also read by a Rust that is too old for the engine, which then says so.
    parts = ["version = 3\n"]
    for line in PINS.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        name, version, checksum, *needs = line.split()
        if [name, version, checksum] == THE_ENGINE:
            part = f'[[package]]\nname = "{engine}"\nversion = "{engine_version}"\n'
        else:
            part = f'[[package]]\nname = "{name}"\nversion = "{version}"\n'
            part += f'source = "{registry}"\nchecksum = "{checksum}"\n'
        if needs:
            part += "dependencies = [\n" + "".join(f' "{need.replace("@", " ")}",\n' for need in needs) + "]\n"
        parts.append(part)
    text = "\n".join(parts)
    if not CARGO_LOCK.exists() or CARGO_LOCK.read_text(encoding="utf-8") != text:
        CARGO_LOCK.write_text(text, encoding="utf-8")


def read_cargo_lock() -> str:
    """Return engine/Cargo.lock as the text of locks/engine.txt."""
    lines = [HEADER]
    for package in tomllib.loads(CARGO_LOCK.read_text(encoding="utf-8"))["package"]:
        pinned = [package["name"], package["version"], package["checksum"]] if "source" in package else THE_ENGINE
        needs = (need.replace(" ", "@") for need in package.get("dependencies", []))
        lines.append(" ".join([*pinned, *needs]) + "\n")
    return "".join(lines)


def pin(*, upgrade: bool) -> None:
    """Write locks/engine.txt. A crate keeps its version, except with `upgrade`."""
    if not has_cargo():
        print("make locks: there is no cargo here, so locks/engine.txt stays as it is")
        return
    if PINS.exists() and not upgrade:
        write_cargo_lock()
        run("cargo", "update", "--quiet", "--workspace")
    else:
        CARGO_LOCK.unlink(missing_ok=True)
        run("cargo", "generate-lockfile", "--quiet")
    PINS.write_text(read_cargo_lock(), encoding="utf-8")


def build_wheel(folder: Path, *, portable: bool) -> None:
    options = PORTABLE if portable and sys.platform == "linux" else ()
    write_cargo_lock()
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("kafkagroups_engine-*.whl"):
        old.unlink()
    maturin = (sys.executable, "-m", "maturin", "build", "--interpreter", sys.executable)
    run(*maturin, *BUILD, *options, "--out", folder.resolve())


def build_sdist(folder: Path) -> None:
    write_cargo_lock()
    run(sys.executable, "-m", "maturin", "sdist", "--out", folder.resolve())


def lint() -> None:
    """Check the crate as far as this machine can. In CI, it must be able to."""
    missing = [name for name in ("fmt", "clippy") if not has_cargo(name)]
    if missing:
        print(f"make lint: cargo has no {' and no '.join(missing)} here, so the engine is checked without it")
        if os.environ.get("CI") == "true":
            raise Failed
    if "fmt" not in missing:
        run("cargo", "fmt", "--check")
    if "clippy" not in missing:
        write_cargo_lock()
        run("cargo", "clippy", "--quiet", *BUILD, *WITH_PYTHON, "--all-targets", "--", "-D", "warnings")


def test() -> None:
    if not has_cargo():
        print("make test-all: there is no cargo here, so the tests of the crate in engine/tests are left out")
        if os.environ.get("CI") == "true":
            raise Failed
        return
    write_cargo_lock()
    run("cargo", "test", *BUILD)


def main() -> int:
    parser = argparse.ArgumentParser(description="Build, check, test and pin the native engine.")
    commands = parser.add_subparsers(dest="command", required=True)
    wheel = commands.add_parser("wheel")
    wheel.add_argument("folder", type=Path)
    wheel.add_argument("--portable", action="store_true")
    commands.add_parser("sdist").add_argument("folder", type=Path)
    commands.add_parser("lint")
    commands.add_parser("test")
    commands.add_parser("pin").add_argument("--upgrade", action="store_true")
    arguments = parser.parse_args()
    try:
        if arguments.command == "wheel":
            build_wheel(arguments.folder, portable=arguments.portable)
        elif arguments.command == "sdist":
            build_sdist(arguments.folder)
        elif arguments.command == "lint":
            lint()
        elif arguments.command == "test":
            test()
        else:
            pin(upgrade=arguments.upgrade)
    except Failed:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
