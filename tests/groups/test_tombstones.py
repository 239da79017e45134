"""docs/facts/tombstones.yaml: each row against both loaders, the cleaner, and logs of real brokers."""

import json

import pytest

import kafkagroups as kg
from tests import cases
from tests.captured import captured
from tests.groups.compaction import cleaned
from tests.groups.small_logs import MINUTE, START, write
from tests.groups.tombstones import FACTS, ROWS, STEPS, describe, load_remains, make_steps, strip_hidden

OTHER_GROUP = ("R",)
"""A commit of another group. It is in the active segment, which the cleaner does not touch."""
PASSES = 3
"""The first pass sets the delete horizon, and the second one removes the tombstones. The third one changes nothing."""
WORD_BY_PENDING_PARTITION = {"t-0": "X", "t-1": "Y"}


@pytest.fixture(params=ROWS)
def row(request):
    return ROWS[request.param]


@pytest.fixture
def log(row, tmp_path):
    """The log of the row: one closed segment, and the active segment."""
    steps = make_steps(row.log)
    return write(tmp_path / "__consumer_offsets-0", [*steps, OTHER_GROUP], {len(steps)})


def test_every_word_is_explained_and_used():
    explained = {word for key in FACTS.words for word in key.split(", ")}
    assert explained == STEPS.keys() == {word for log in ROWS for word in log.split()}


def test_a_load_leaves_what_the_row_says(row, log):
    assert load_remains(log, "classic", row.log) == row.loaded.classic
    assert load_remains(log, "new", row.log) == row.loaded.new


def test_the_cleaned_log_leaves_what_the_row_says(row, log, tmp_path):
    """The passes are days apart, so every delete horizon has passed. An open transaction stops the cleaner."""
    after = cleaned(log, tmp_path / "cleaned", PASSES, START + len(row.log) * MINUTE)
    remains = row.cleaned or row.loaded
    assert has_tombstone(after) == (row.cleaned is None)
    assert load_remains(after, "classic", row.log) == remains.classic
    assert load_remains(after, "new", row.log) == remains.new


def has_tombstone(folder):
    return any(
        record.value is None for batch in kg.open_log(folder) if not batch.is_control for record in batch.records
    )


def test_only_an_open_transaction_stops_the_cleaner():
    for row in ROWS.values():
        words = row.log.split()
        is_open = bool({"X", "Y", "U"} & set(words)) and not {"M", "A"} & set(words)
        assert (row.cleaned is None) == is_open, row.log


def test_real_brokers_loaded_the_same(row):
    """The crafted logs of the row, loaded by 3.9.2 and 4.3.1. The records are the same, and so are the answers."""
    crafted = {each["id"]: each for each in json.loads((captured("crafted") / "crafted" / "cases.json").read_text())}
    for name in row.recorded:
        with cases.case(name):
            words, word_by_offset, group = read_words(crafted[name], is_of_one_partition="Y" not in row.log)
            assert words == row.log.split()
            for coordinator, declared in (("classic", row.loaded.classic), ("new", row.loaded.new)):
                answers = crafted[name]["answers"][coordinator]
                assert read_answers(answers, group, word_by_offset) == strip_hidden(declared)


def test_most_rows_are_recorded():
    assert sum(bool(row.recorded) for row in ROWS.values()) >= 15


def read_words(case, is_of_one_partition):
    """Return the words of a crafted log, the word of each committed offset, and the group.

    Markers before the transaction are left out, and so are the records of other groups. If the row is about one
    partition, the records of other partitions are left out, too.
    """
    group = next(iter(case["groups"].values()))
    words = []
    word_by_offset = {}
    is_open = False
    for batch in case["log"]:
        in_transaction = batch.get("transactional", False)
        if "control" in batch:
            if is_open:
                words.append({"commit": "M", "abort": "A"}[batch["control"]])
            is_open = False
            continue
        of_batch = []
        for record in batch["records"]:
            partition = record.get("partition", 0)
            if record["group"] != group or (is_of_one_partition and partition != 0):
                continue
            word = name_record(record, in_transaction, has_offset_tombstone="T" in of_batch)
            if word == "K":
                of_batch.remove("T")
            of_batch.append(word)
            if "offset" in record:
                word_by_offset[record["offset"]] = word
            is_open = is_open or in_transaction
        words += of_batch
    return words, word_by_offset, group


def name_record(record, in_transaction, has_offset_tombstone):
    if record["op"] == "commit":
        if in_transaction:
            return "Y" if record["partition"] else "X"
        return "C"
    if record["op"] == "group":
        assert record["members"] == []
        return "E"
    if record["op"] == "commit_tombstone":
        return "U" if in_transaction else "T"
    assert record["op"] == "group_tombstone"
    if has_offset_tombstone:
        return "K"
    return "W" if in_transaction else "D"


def read_answers(answers, group, word_by_offset):
    """Return what a broker showed of a group. A pending commit is an unstable offset, without its number."""
    offsets = {each["offset"] for each in answers["offsets"][group].values()}
    stable = answers["stable"][group].items()
    unstable = [partition for partition, answer in stable if answer.get("error") == "UNSTABLE_OFFSET_COMMIT"]
    return describe(
        answers["groups"][group]["state"] != "Dead",
        committed=[word for offset, word in word_by_offset.items() if offset in offsets],
        pending=[WORD_BY_PENDING_PARTITION[partition] for partition in unstable],
        fails=answers["load"] == "failed",
    )
