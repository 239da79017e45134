"""Files that are no ordinary segments: pipes, devices, folders, unreadable, vanished and sparse files."""

import errno
import io
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

import kafkagroups as kg
from tests.handmade import LogRecord, encode_batch, write_segment

ROOT = Path(__file__).parents[2]
LOG = ROOT / "data" / "harbour" / "3.9.2" / "__consumer_offsets-9"
READING_COMMANDS = (
    ("load",),
    ("load", "--engine", "python"),
    ("dump",),
    ("dump", "--format", "dump-log"),
    ("dump", "--format", "formatter"),
    ("explain", "--group", "billing"),
    ("timeline", "--group", "billing"),
    ("stats",),
    ("diff", "--coordinators"),
    ("compact", "--out", "OUT"),
)


def make_pipe(path):
    os.mkfifo(path)


def make_device(path):
    path.symlink_to("/dev/zero")


def make_folder(path):
    path.mkdir()


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def make_broken_link(path):
    path.symlink_to("nowhere")


SPECIAL_FILES = {
    make_pipe: "expected a regular file, found a named pipe",
    make_device: "expected a regular file, found a device",
    make_folder: "expected a regular file, found a folder",
    make_socket: "expected a regular file, found a socket",
    make_broken_link: "No such file or directory",
}


@pytest.mark.parametrize(
    ("make", "command"),
    [*product(SPECIAL_FILES, READING_COMMANDS[:2]), *product([make_pipe], READING_COMMANDS[2:])],
    ids=lambda part: part.__name__ if callable(part) else " ".join(part),
)
def test_a_segment_that_is_not_a_regular_file(run, tmp_path, monkeypatch, make, command):
    """Both engines and every command that reads a log name the file, and do not begin to read it."""
    monkeypatch.chdir(tmp_path)
    folder = Path("__consumer_offsets-9")
    shutil.copytree(LOG, folder)
    segment = folder / f"{44:020}.log"
    make(segment)
    options = [option.replace("OUT", str(tmp_path / "out")) for option in command[1:]]
    status, _, err = run(command[0], folder, *options)
    assert (status, err) == (2, f"kafkagroups: {segment}: {SPECIAL_FILES[make]}\n")


@pytest.mark.parametrize("make", [make_pipe, make_device, make_socket])
def test_a_path_that_is_not_a_regular_file(run, tmp_path, make):
    """The same for a PATH that is a single file."""
    path = tmp_path / "segment.log"
    make(path)
    status, _, err = run("load", path)
    assert (status, err) == (2, f"kafkagroups: {path}: {SPECIAL_FILES[make]}\n")


BATCHES = (LOG / f"{0:020}.log").read_bytes()
SPARSE_BYTES = 3 * 1024**3 + 1


def header(size, magic=2):
    return struct.pack(">qiib", 44, size - 12, 0, magic)


SPARSE_SEGMENTS = {
    "zeros after the batches": (BATCHES, 0, ""),
    "only zeros": (b"", 0, ""),
    "a byte after the zeros": (BATCHES, 1, "expected a batch length of at least 14, found 0"),
    "a batch of 1 GB": (BATCHES + header(2**30), 0, "this batch has more than 268435456 bytes"),
    "a message of 1 GB": (BATCHES + header(2**30, magic=1), 0, "this batch has more than 268435456 bytes"),
    "an impossible magic": (BATCHES + header(2**30, magic=7), 0, "expected magic 0, 1 or 2, found 7"),
}
"""Segments of 3 GB: the bytes at the start, the last byte, and the reason in the message of a damaged log."""

RUN_COMMANDS = """
import json, resource, sys
from kafkagroups.cli import main
commands = json.loads(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (2 * 1024**3, 2 * 1024**3))
codes = []
for command in commands:
    codes.append(main(command))
    sys.stderr.flush()
print(codes, file=sys.__stdout__)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("kind", SPARSE_SEGMENTS)
def test_a_sparse_segment_of_gigabytes(tmp_path, kind):
    """Every command handles it with 2 GB of memory: zeros are not kept, and a huge batch is damage."""
    start, last_byte, reason = SPARSE_SEGMENTS[kind]
    folder = tmp_path / "__consumer_offsets-9"
    folder.mkdir()
    with open(folder / f"{0:020}.log", "wb") as file:
        file.write(start)
        file.truncate(SPARSE_BYTES)
        if last_byte:
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last_byte]))
    commands = []
    # The engines read all zeros, so only one kind of zeros is tried with every command.
    tried = [READING_COMMANDS[number] for number in (0, 1, 3, -1)] if kind == "only zeros" else READING_COMMANDS
    for number, (name, *options) in enumerate(tried):
        options = [option.replace("OUT", str(tmp_path / f"out-{number}")) for option in options]
        commands.append([name, str(folder), *options])
    command = [sys.executable, "-c", RUN_COMMANDS, json.dumps(commands)]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    codes = json.loads(ended.stdout.splitlines()[-1])
    tool = tried.index(("dump", "--format", "dump-log"))
    # Kafka's dump tool fails at the zeros, because a batch cannot have a length of 0.
    assert codes.pop(tool) == 1
    assert codes == [int(bool(reason))] * len(codes)
    assert ended.stderr.count(reason) >= len(codes) if reason else "damage" not in ended.stderr
    (copied,) = (tmp_path / f"out-{len(commands) - 1}").iterdir()
    assert copied.stat().st_size <= len(BATCHES)


def test_a_lower_limit_is_only_for_compressed_batches(run, tmp_path):
    """A batch without a codec can be as large as the default limit: both engines read it, whatever the option says."""
    large = encode_batch([LogRecord(0, 5, b"\0\2\0\1h", b"x" * 5000)])
    folder = write_segment(tmp_path, large, 9)
    for engine in ("python", "auto"):
        _, out, _ = run("load", folder, "--json", "--max-batch-bytes", 1000, "--engine", engine)
        loaded = json.loads(out)["partitions"]["9"]
        assert (loaded["batches"], loaded["damage"]) == (1, None)


def test_an_unreadable_file_is_named(run, tmp_path, monkeypatch):
    """A message about missing permissions contains the path of the segment or folder that cannot be read."""
    shutil.copytree(LOG.parent, tmp_path / "log")
    broken = tmp_path / "log" / "__consumer_offsets-9"
    iterate = Path.iterdir

    def refuse(path):
        if path == broken:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return iterate(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert run("load", tmp_path / "log") == (2, "", f"kafkagroups: {broken}: Permission denied\n")
    monkeypatch.undo()

    segment = broken / f"{0:020}.log"
    os_open = os.open

    def refuse_segment(path, flags, *more, **options):
        if path == str(segment):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return os_open(path, flags, *more, **options)

    monkeypatch.setattr(os, "open", refuse_segment)
    assert run("dump", broken)[::2] == (2, f"kafkagroups: {segment}: Permission denied\n")


def test_a_segment_that_disappears(tmp_path):
    """A file that is deleted after the folder was listed, for example by the cleaner, is named too."""
    shutil.copytree(LOG, tmp_path / "log")
    log = kg.open_log(tmp_path / "log")
    (segment,) = log.segments
    os.remove(segment)
    for read in (list, lambda log: log.size, lambda log: list(log.read_new_batches(None))):
        with pytest.raises(kg.UsageError, match=f"{segment}: No such file or directory"):
            read(log)


def test_an_error_while_a_segment_is_read(run, monkeypatch):
    """An error of the disk is one line with the path of the segment."""

    segment = LOG / f"{0:020}.log"
    open_file = open

    class BrokenFile(io.FileIO):
        def read(self, size=-1):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(
        "builtins.open",
        lambda path, *more, **options: BrokenFile(path) if path == str(segment) else open_file(path, *more, **options),
    )
    assert run("load", LOG, "--engine", "python")[::2] == (2, f"kafkagroups: {segment}: Input/output error\n")


@pytest.mark.parametrize("command", [("decode", "--jsonl"), ("encode", "--jsonl")])
def test_a_line_of_stdin_may_not_fill_the_memory(command):
    """/dev/zero has no end and no line breaks."""
    with open("/dev/zero", "rb") as stdin:
        done = subprocess.run(
            [sys.executable, "-m", "kafkagroups", *command], stdin=stdin, capture_output=True, text=True, cwd=ROOT
        )
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "expected lines of at most 67108864 bytes" in done.stderr


@pytest.mark.parametrize("make", [make_pipe, make_broken_link, make_socket])
def test_a_partition_folder_that_is_no_folder(run, tmp_path, make):
    """A broker's folder with a pipe instead of a partition is not loaded as if the partition did not exist."""
    shutil.copytree(LOG, tmp_path / "broker" / LOG.name)
    odd = tmp_path / "broker" / "__consumer_offsets-3"
    make(odd)
    status, _, err = run("load", tmp_path / "broker")
    assert (status, err) == (2, f"kafkagroups: {odd}: expected a folder\n")
