"""What tests of the set-up share: a copy of some of the project's files, and programs that are shell scripts."""

import shutil
from pathlib import Path

ROOT = Path(__file__).parent.parent


def copy_files(folder: Path, *names: str) -> Path:
    """Copy files of the project into a folder, and return the folder."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def write_program(path: Path, script: str) -> Path:
    """Write a program that runs a shell script, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path
