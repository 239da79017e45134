"""The compiled cleaner writes what the readable cleaner writes, on every captured pass and on random logs."""

import json
import os
import random

import pytest

import kafkagroups as kg
from kafkagroups.kernels import clean
from kafkagroups.log.batch import LogRecord
from kafkagroups.log.cleaner import CleanerConfig
from kafkagroups.log.folders import open_log
from kafkagroups.log.record_batch import encode_batch
from kafkagroups.log.writer import LogWriter
from tests.captured import captured
from tests.cases import case
from tests.kernels.random_clean import RandomLog
from tests.log.test_cleaner import PASSES, Pass, content, new_folder

LONG = os.environ.get("KG_PROFILE") == "long"


def outcome(path, out, engine, arguments):
    """Return the result of a pass, and the bytes and the time of each written file; or the error."""
    try:
        done = kg.compact(path, out, engine=engine, **arguments)
    except kg.KafkagroupsError as error:
        assert not any(out.iterdir())
        return type(error), str(error)
    return done, content(out), [file.stat().st_mtime_ns for file in sorted(out.iterdir())]


def check(path, folder, arguments):
    """Compare the two cleaners, and return whether the compiled one has cleaned the log itself."""
    wanted = outcome(path, folder / "readable", "python", arguments)
    assert outcome(path, folder / "compiled", "compiled", arguments) == wanted
    given = {name: value for name, value in arguments.items() if value is not None}
    return clean.clean_if_possible(open_log(path), folder / "maybe", CleanerConfig(**given)) is not None


@pytest.mark.slow
def test_every_recorded_pass_is_the_same(tmp_path):
    """Both cleaners give the same files and numbers at each of Kafka's passes. Most are passes of the kernels."""
    compiled = 0
    for name, number in PASSES:
        with case(f"{name}, pass {number}"):
            recorded = Pass(name, number, new_folder(tmp_path, name, number))
            compiled += check(recorded.path, recorded.path.parent, recorded.arguments)
    assert compiled > len(PASSES) / 2


@pytest.mark.slow
@pytest.mark.parametrize("family", ["runs", "crafted"])
def test_captured_logs_are_cleaned_the_same(family, tmp_path):
    """Every log that a broker wrote or that was crafted, with its last segment and without it."""
    folders = sorted({file.parent for file in captured(family).rglob("*.log")})
    for number, folder in enumerate(folders):
        with case(folder.relative_to(captured(family))):
            for name, arguments in {"all": {"first_uncleanable": 2**62}, "closed": {}}.items():
                out = tmp_path / str(number) / name
                out.mkdir(parents=True)
                check(folder, out, arguments)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_random_logs_are_cleaned_the_same(part, tmp_path):
    """1,000 random logs with random arguments (20,000 in the long profile). The kernels clean most of them."""
    seeds = range(part, 20_000 if LONG else 1_000, 4)
    compiled = 0
    for seed in seeds:
        log = RandomLog(seed)
        folder = tmp_path / str(seed)
        path = log.write(folder / "__consumer_offsets-0")
        arguments = log.arguments()
        with case(f"seed {seed}: {json.dumps(arguments)}"):
            compiled += check(path, folder, arguments)
    assert compiled > len(seeds) / 2


def test_arrays_grow_during_a_pass(monkeypatch, tmp_path):
    """If the first arrays are tiny, every array has to grow, and the result is the same."""
    monkeypatch.setattr(clean, "INITIAL_PRODUCERS", 2)
    monkeypatch.setattr(clean, "INITIAL_ABORTED", 1)
    monkeypatch.setattr(clean, "INITIAL_MAP_ROWS", 2)
    monkeypatch.setattr(clean, "PIECE_BYTES", 1)
    for seed in range(60):
        log = RandomLog(seed)
        folder = tmp_path / str(seed)
        path = log.write(folder / "__consumer_offsets-0")
        with case(f"seed {seed}"):
            check(path, folder, log.arguments())


def test_the_progress_reaches_the_end_of_each_step(tmp_path):
    """The compiled cleaner reports the same three steps, and the last report of each step is the whole."""
    recorded = Pass("cases/03-overwrite-inside-batch", 1, tmp_path)
    reports = []
    kg.compact(recorded.path, recorded.out, engine="compiled", progress=lambda *report: reports.append(report))
    last = {step: (done, total) for step, done, total in reports}
    assert list(last) == ["read", "map", "clean"]
    assert all(done == total > 0 for done, total in last.values())


def test_a_small_log_is_cleaned_without_numba(tmp_path, monkeypatch):
    """The engine "auto" chooses by the size of the log, and "compiled" without numba is the caller's mistake."""
    recorded = Pass("cases/03-overwrite-inside-batch", 1, tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "kafkagroups.kernels.fold_log", None)
    kg.compact(recorded.path, recorded.out)
    with pytest.raises(kg.UsageError, match="needs the Python package numba: pip install"):
        kg.compact(recorded.path, tmp_path / "other", engine="compiled")
    with pytest.raises(kg.UsageError, match="no engine 'fast'"):
        kg.compact(recorded.path, tmp_path / "other", engine="fast")


COLLIDING_KEYS = [
    bytes.fromhex(
        "4dc968ff0ee35c209572d4777b721587d36fa7b21bdc56b74a3dc0783e7b9518afbfa2"
        f"{byte}a8284bf36e8e4b55b35f427593d849676da0d1{other}5d8360fb5f07fea2"
    )
    for byte, other in (("00", "55"), ("02", "d5"))
]
"""Two keys with the same MD5 hash (Marc Stevens, 2012)."""


def test_keys_with_the_same_md5_hash_are_one_key_as_in_kafkas_map(tmp_path):
    """Kafka's map stores only hashes, so the older of the two records is removed. A third key stays."""
    folder = tmp_path / "__consumer_offsets-0"
    keys = [COLLIDING_KEYS[0], b"k", COLLIDING_KEYS[1], b"last"]
    with LogWriter(folder, segment_bytes=1) as log:
        for offset, key in enumerate(keys):
            log.append(encode_batch([LogRecord(offset, 5, key, b"v")]))
    assert check(folder, tmp_path, {})
    assert [record.offset for batch in kg.open_log(tmp_path / "compiled") for record in batch.records] == [1, 2, 3]


def test_the_hash_of_a_key_is_md5():
    """The kernel gives the MD5 hash of RFC 1321 for every size of the last block."""
    from hashlib import md5 as readable_md5

    from kafkagroups.kernels.md5 import create_block, md5
    from kafkagroups.kernels.unpack import as_array

    block, words = create_block()
    for size in (*range(140), 1000):
        data = random.Random(size).randbytes(size + 3)
        halves = [half % 2**64 for half in md5(as_array(data), 3, size, block, words)]
        assert b"".join(half.to_bytes(8, "little") for half in halves) == readable_md5(data[3:]).digest()
