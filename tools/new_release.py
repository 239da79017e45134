"""Compare a release of Kafka with the one before it, and print what to look at: schemas, limits, loader, cleaner.

    python tools/new_release.py               the newest release of each recent line, if it is newer than all we know
    python tools/new_release.py 4.2.1 4.2.2   two releases

A line names a schema that differs, or a class whose code can change what a load or the cleaner does, with the texts and
numbers that are new in it: a new message, setting or limit. Maven fetches the jars (tests/releases/pom.xml). A change
that is printed has to be looked up in Kafka's source, and tried with brokers, before a rule is written.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from kafkagroups.records.releases import NEWEST_PATCHES

ROOT = Path(__file__).parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafkagroups"
RECENT_LINES = 3
"""How many feature releases still get patch releases."""
WATCHED = {
    "schema": re.compile(
        r"common/message/(Offset|Group|ConsumerGroup|ShareGroup|StreamsGroup|ConsumerProtocol)\w*(Key|Value|Assignment|"
        r"Subscription)\.json"
    ),
    "loader": re.compile(
        r"org/apache/kafka/coordinator/(common/runtime/CoordinatorLoader|group/(\w+|classic/\w+|modern/\w+|"
        r"modern/\w+/\w+|streams/\w+|generated/CoordinatorRecord\w*)\.class)|"
        r"org/apache/kafka/clients/consumer/internals/ConsumerProtocol"
    ),
    "limits": re.compile(r"org/apache/kafka/common/(protocol/\w+|record/(internal/)?\w+|utils/ByteUtils)\.class"),
    "cleaner": re.compile(r"org/apache/kafka/storage/internals/log/(\w*Clean\w*|LogConfig|LogLoader|LogSegment)\b"),
}
"""By what to look at: the paths in the jars."""
SHOWN = 12
_NOISE = re.compile(r"\(|\[*L[\w/$<>;*]+;$|java/|Local|\w+\$|.{101}", re.DOTALL)
"""Matches a text that says little: the type of a method or a field, a class of Java, or a long text."""
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
"""By the tag of a constant in a class file (JVM specification, 4.4): the number of its bytes."""


def fetch(version: str, scratch: Path) -> Path | None:
    """Return a folder with the jars of a release, or of the newest release in a range; None if there is none.

    Jars that `make brokers` has not fetched yet go into a new folder in `scratch`.
    """
    folder = CACHE / f"coordinator-{version}"
    if (folder / ".complete").exists():
        return folder
    target = Path(tempfile.mkdtemp(dir=scratch))
    options = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={target}"]
    command = ["mvn", "-q", "-B", "-f", str(ROOT / "tests/releases/pom.xml"), f"-Dkafka={version}", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    return target if done.returncode == 0 else None


def version_of(folder: Path) -> str:
    (jar,) = folder.glob("kafka-group-coordinator-[0-9]*.jar")
    return jar.stem.removeprefix("kafka-group-coordinator-")


def read_watched(folder: Path) -> dict[tuple[str, str], bytes]:
    """Return the watched files of all jars, by what to look at and path."""
    found = {}
    for jar in sorted(folder.glob("kafka*.jar")):
        with zipfile.ZipFile(jar) as archive:
            for path in archive.namelist():
                for area, pattern in WATCHED.items():
                    if pattern.match(path):
                        found[area, path] = archive.read(path)
    return found


def constants(content: bytes) -> set[str]:
    """Return the texts and numbers in the constant pool of a class file."""
    (count,) = struct.unpack_from(">H", content, 8)
    found = set()
    position = 10
    index = 1
    while index < count:
        tag = content[position]
        position += 1
        if tag == 1:
            (size,) = struct.unpack_from(">H", content, position)
            found.add(content[position + 2 : position + 2 + size].decode("utf-8", "replace"))
            position += 2 + size
        else:
            if tag in (3, 5):
                found.add(str(int.from_bytes(content[position : position + _SIZES[tag]], "big", signed=True)))
            position += _SIZES[tag]
        index += 2 if tag in (5, 6) else 1
    return found


def compare(old: Path, new: Path) -> Iterator[str]:
    """Yield a line for each watched file that differs."""
    before = read_watched(old)
    after = read_watched(new)
    for area, path in sorted(before.keys() | after.keys()):
        contents = [files.get((area, path)) for files in (before, after)]
        if contents[0] == contents[1]:
            continue
        line = f"{area}: {path}"
        if None in contents:
            yield f"{line}: {'new' if contents[0] is None else 'gone'}"
        elif path.endswith(".class"):
            old_constants, new_constants = map(constants, contents)
            texts = sorted(text for text in new_constants - old_constants if not _NOISE.match(text))
            more = f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
            yield f"{line}: {', '.join(map(repr, texts[:SHOWN])) or 'other code'}{more}"
        else:
            yield f"{line}: the schema differs"


def report(old: Path, new: Path) -> None:
    lines = list(compare(old, new))
    print(f"Kafka {version_of(new)}, compared with {version_of(old)}: {len(lines)} files to look at")
    for line in lines:
        print(f"  {line}")


def main(arguments: list[str]) -> None:
    if not shutil.which("mvn"):
        print("Maven is missing, so no jars are compared. Install the program mvn.")
        return
    with tempfile.TemporaryDirectory(prefix="kafkagroups-jars-") as place:
        if arguments:
            compare_two(*arguments, Path(place))
        else:
            look_for_newer(Path(place))


def compare_two(first: str, second: str, scratch: Path) -> None:
    old = fetch(first, scratch)
    new = fetch(second, scratch)
    if old is None or new is None:
        sys.exit(f"Maven finds no Kafka {first if old is None else second}")
    report(old, new)


def look_for_newer(scratch: Path) -> None:
    lines = list(NEWEST_PATCHES)[-RECENT_LINES:]
    for line, next_line in zip(lines, [*lines[1:], ""], strict=True):
        known = f"{line}.{NEWEST_PATCHES[line]}"
        newest = fetch(f"[{known},{next_line})", scratch)
        if newest is None:
            print(f"Maven finds no Kafka {known} or newer")
        elif version_of(newest) == known:
            print(f"Kafka {known} is the newest release {'of all' if not next_line else f'of {line}'}")
        else:
            report(fetch(known, scratch) or newest, newest)


if __name__ == "__main__":
    main(sys.argv[1:])
