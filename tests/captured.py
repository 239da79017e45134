"""The fixtures: bytes and answers of real brokers, a compressed archive a family, unpacked once a session.

`python -m tests.captured list` shows what is inside; `python -m tests.captured pack FOLDER [FAMILY…]` packs them again
from the oracle's folder. The answers are what Kafka itself said; nothing in here is our own output.
"""

import atexit
import functools
import io
import json
import lzma
import os
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

ARCHIVES = Path(__file__).parent / "captured"
LONG = os.environ.get("KG_PROFILE") == "long"

FAMILIES = {
    "records": ["*.jsonl", "schemas.json", "writer_versions.json"],
    "vectors": ["vectors/*.jsonl"],
    "dumplog": ["dumplog/*", "dumplog/*/*"],
    "crafted": ["crafted/cases.json", "crafted/other_versions.json", "crafted/logs/*/*/*.log"],
    "conversations": [
        f"conversations/{broker}-*/{name}"
        for broker in ("1.0.1", "2.8.2", "3.9.2", "4.3.1", "4.4.0")
        for name in ("conversation.jsonl", "answers.json", "log/*/*.log")
    ],
    "new_expiry": ["conversations_new/4.3.1-consumer-expiry/log/*/*.log"],
    "new_conversations": [
        f"conversations_new/*/{name}" for name in ("conversation.jsonl", "answers.json", "log/*/*.log")
    ],
    "cleaner": ["cleaner/*/*/case.json", "cleaner/*/*/after-pass-*.json", "cleaner/*/*/*/*.log"],
    "runs": [
        "runs/*/*answers.json",
        "runs/*/*dump.txt",
        "runs/*/records.jsonl",
        "runs/*/actions.jsonl",
        "runs/*/console.jsonl",
        "runs/*/formatter-*.txt",
        "runs/*/*/__consumer_offsets-*/*.log",
    ],
    "releases": [
        "releases/crafted_versions.json",
        "releases/*/*/case.json",
        "releases/*/*/__consumer_offsets-*/*.log",
        "releases/decompressed/*/after-cleaning/*/*.log",
    ],
    "incidents": ["incidents/README.md", "incidents/*/*/*.log", "incidents/*/[ab]/*/*"],
    "v440": [
        "v440/*.json",
        "v440/*.jsonl",
        "v440/runs/*/answers.json",
        "v440/runs/*/dump.txt",
        "v440/runs/*/*/__consumer_offsets-*/*.log",
    ],
}


@functools.cache
def captured(family: str) -> Path:
    """The folder of a family, unpacked for this session."""
    folder = _session() / family  # below one folder, so that paths of two families sort the same in every process
    with tarfile.open(ARCHIVES / f"{family}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@functools.cache
def _session() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="kafkagroups-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def folders(family: str) -> list[Path]:
    """Every folder of a family that is a log or holds a broker's logs."""
    parents = {file.parent for file in captured(family).rglob("*.log")}
    return sorted({each.parent if each.name.startswith("__") else each for each in parents})


def some_folders(family: str) -> list[Path]:
    """The folders of a family; of the release cases, which are many and alike, only each fourth one.

    The long profile has all of them.
    """
    return folders(family)[:: 4 if family == "releases" and not LONG else 1]


def rows(family: str, name: str) -> list[dict]:
    """The lines of a .jsonl file of a family."""
    with open(captured(family) / name, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def pack(oracle: Path, families: list[str]) -> None:
    ARCHIVES.mkdir(exist_ok=True)
    for family in families or FAMILIES:
        patterns = FAMILIES[family]
        files = sorted({file for pattern in patterns for file in oracle.glob(pattern) if file.is_file()})
        plain = io.BytesIO()
        with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for file in files:
                entry = tarfile.TarInfo(str(file.relative_to(oracle)))
                entry.size = file.stat().st_size
                archive.addfile(entry, io.BytesIO(file.read_bytes()))
        packed = lzma.compress(plain.getvalue(), preset=9 | lzma.PRESET_EXTREME)
        (ARCHIVES / f"{family}.tar.xz").write_bytes(packed)
        print(f"{family}: {len(files)} files, {len(packed)} bytes")


def show() -> None:
    for family in FAMILIES:
        with tarfile.open(ARCHIVES / f"{family}.tar.xz") as archive:
            for entry in archive:
                print(f"{entry.size:>9}  {family}: {entry.name}")


if __name__ == "__main__":
    if sys.argv[1:] == ["list"]:
        show()
    elif sys.argv[1:2] == ["pack"] and len(sys.argv) >= 3 and FAMILIES.keys() >= set(sys.argv[3:]):
        pack(Path(sys.argv[2]), sys.argv[3:])
    else:
        raise SystemExit("usage: python -m tests.captured list | pack FOLDER [FAMILY…]")
