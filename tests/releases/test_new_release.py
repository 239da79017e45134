"""The tool that compares the jars of two releases finds a changed schema, a new limit and a changed class."""

import runpy
import struct
import zipfile
from pathlib import Path

TOOL = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "new_release.py"))
CLEANER = "org/apache/kafka/storage/internals/log/Cleaner.class"
LOADER = "org/apache/kafka/coordinator/group/GroupMetadataManager.class"
LIMITS = "org/apache/kafka/common/protocol/MessageUtil.class"
SCHEMA = "common/message/GroupMetadataValue.json"


def class_file(*constants):
    """Return the start of a class file with these constants: a text, or an int."""
    pool = b""
    for constant in constants:
        if isinstance(constant, int):
            pool += b"\3" + struct.pack(">i", constant)
        else:
            pool += b"\1" + struct.pack(">H", len(constant)) + constant.encode()
    return struct.pack(">IHHH", 0xCAFEBABE, 0, 61, len(constants) + 1) + pool


def jars(folder, files):
    folder.mkdir()
    with zipfile.ZipFile(folder / "kafka-clients-1.jar", "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return folder


def test_what_differs_is_named_with_its_new_texts_and_numbers(tmp_path):
    old = {SCHEMA: "1", CLEANER: class_file("clean"), LOADER: class_file("load"), "other.class": b"1"}
    new = {
        SCHEMA: "2",
        CLEANER: class_file("clean", "max.decompressed.message.bytes", "(Ljava/lang/String;)V"),
        LOADER: class_file("load") + b"code",
        LIMITS: class_file(1_000_000),
        "other.class": b"2",
    }
    assert list(TOOL["compare"](jars(tmp_path / "old", old), jars(tmp_path / "new", new))) == [
        f"cleaner: {CLEANER}: 'max.decompressed.message.bytes'",
        f"limits: {LIMITS}: new",
        f"loader: {LOADER}: other code",
        f"schema: {SCHEMA}: the schema differs",
    ]


def test_the_constants_of_a_class_are_its_texts_and_numbers():
    assert TOOL["constants"](class_file("a", 10_000, -1)) == {"a", "10000", "-1"}
