"""Paths with bytes that are no UTF-8, which file systems allow."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHOP = ROOT / "data" / "harbour" / "3.9.2"
PARTITION = b"__consumer_offsets-9"
NAME = b"caf\xe9"
CASES = [
    [b"load"],
    [b"load", b"--snapshot", b"OUT"],
    [b"explain", b"--group", b"billing"],
    [b"timeline", b"--group", b"billing"],
    [b"dump"],
    [b"check"],
    [b"stats"],
    [b"diff", b"--coordinators"],
    [b"report", b"--out", b"OUT"],
    [b"rescue plan", b"--out", b"OUT"],
    [b"edit", b"--out", b"OUT", b"--cut", b"40"],
    [b"compact", b"--out", b"OUT"],
]


@pytest.fixture
def copied(tmp_path):
    """Return a copy of a partition below a folder whose name is no UTF-8, and a path beside it."""
    if sys.platform == "darwin":
        pytest.skip("its file systems refuse such names")
    folder = os.path.join(os.fsencode(tmp_path), NAME, PARTITION)
    shutil.copytree(os.fsencode(SHOP / PARTITION.decode()), folder)
    return folder, os.path.join(os.fsencode(tmp_path), b"out-" + NAME)


@pytest.mark.parametrize(
    ("case", "engine"),
    [(CASES[0], "python"), *((case, "compiled") for case in CASES)],
    ids=lambda part: part if isinstance(part, str) else b" ".join(part).decode(),
)
def test_every_command_opens_a_path_that_is_no_utf_8(run, copied, case, engine):
    """The message or JSON shows the byte as an escape."""
    folder, out = copied
    words = [*case[0].split(), folder, *(out if word == b"OUT" else word for word in case[1:])]
    if case[0] not in (b"dump", b"diff", b"edit"):
        words += [b"--engine", engine.encode()]
    status, text, errors = run(*map(os.fsdecode, words))
    assert (status, errors) == (0, "")
    assert text.encode()
    if b"OUT" in case:
        assert os.path.exists(out)


def test_the_arguments_of_a_process_can_be_such_a_path(copied):
    """LC_ALL=C.UTF-8, as on most servers."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}
    command = [sys.executable, "-m", "kafkagroups", b"load", copied[0]]
    ended = subprocess.run(command, env=environment, capture_output=True)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.decode()


def test_other_arguments_are_texts(run):
    """A group id is a text: bytes that are no UTF-8 become U+FFFD, as in Java."""
    _, out, _ = run("partition", os.fsdecode(b"a\xff"), "--json")
    assert json.loads(out)["group"] == "a\ufffd"
