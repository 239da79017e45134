"""`kafkagroups synth`: what it prints, and what it refuses."""

import json

import pytest

import kafkagroups as kg


def test_json_is_what_was_written(tmp_path, run):
    """One line, as CONTRACT.md 24 has it; a load finds the same."""
    options = ["--partitions", 3, "--groups", 40, "--tombstones", 0.1, "--transactional", 0.5, "--seed", 7]
    more = ["--keys", 20, "--width", "varied", "--skew", 0.5, "--hot", 0.3, "--modern", 0.2, "--members", 2]
    rest = ["--generations", "--metadata", 0.1, "--aborts", 0.2, "--hanging", 0.05, "--prefix", "shop."]
    last = ["--codec", "zstd", "--segment-bytes", 5000, "--json"]
    status, out, err = run("synth", "--out", tmp_path / "new", "--records", 4000, *options, *more, *rest, *last)
    assert (status, err, out.count("\n")) == (0, "", 1)
    written = json.loads(out)
    assert set(written) == {"partitions", "groups", "live_offsets", "transactions"}
    assert set(written["transactions"]) == {"committed", "aborted", "open"} and all(written["transactions"].values())
    groups = kg.load(tmp_path / "new", partitions=3)
    assert sum(len(group.offsets) for group in groups.values()) == written["live_offsets"]
    assert len(groups.partitions_of) == written["groups"] and all(name.startswith("shop.") for name in groups)
    for number, part in written["partitions"].items():
        assert set(part) == {"segments", "batches", "records", "bytes"}
        folder = tmp_path / "new" / f"__consumer_offsets-{number}"
        assert sum(file.stat().st_size for file in folder.iterdir()) == part["bytes"]
    assert {group.type for group in groups.values()} == {"classic", "consumer"}


def test_the_same_options_give_the_same_bytes(tmp_path, run):
    """200k and 10M are numbers of records."""
    for name, number in (("a", "1000"), ("b", "1k")):
        assert run("synth", "--out", tmp_path / name, "--records", number, "--seed", 3)[0] == 0
    a, b = ([(f.name, f.read_bytes()) for f in sorted((tmp_path / name).rglob("*.log"))] for name in "ab")
    assert a == b


def test_a_table_for_people(tmp_path, run):
    status, out, err = run("synth", "--out", tmp_path, "--records", 1000, "--partitions", 1, "--transactional", 1)
    assert (status, err) == (0, "")
    assert "1000 records" in out and "live offsets" in out and "committed" in out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--records", "-1"], "records: expected 0 to"),
        (["--records", "many"], "expected a number such as 1000, 200k or 1M, found 'many'"),
        (["--records", "infM"], "a number such as 1000, 200k or 1M"),
        (["--groups", "0"], "groups: expected 1 to"),
        (["--partitions", "0"], "at least 1 partition"),
        (["--tombstones", "1.5"], "'tombstones': expected 0 to 1"),
        (["--tombstones", "nan"], "'tombstones': expected 0 to 1"),
        (["--transactional", "2"], "'transactional': expected 0 to 1"),
        (["--codec", "brotli"], "none, gzip, snappy, lz4, zstd"),
        (["--width", "wide"], "a number or the word varied"),
        (["--seed", "-1"], "the seed: expected 0 to"),
        (["--prefix", "a b"], "letters, digits"),
        (["--upside-down"], "unrecognized"),
    ],
)
def test_wrong_arguments_are_one_line_and_2(tmp_path, run, arguments, reason):
    status, out, err = run("synth", "--out", tmp_path / "out", "--records", 10, *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1) and reason in err
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_in_it_is_refused(tmp_path, run):
    (tmp_path / "here").write_text("")
    status, out, err = run("synth", "--out", tmp_path, "--records", 10)
    assert (status, out, err.count("\n")) == (2, "", 1) and "expected a new or empty folder" in err


def test_out_and_records_are_needed(run):
    status, _, err = run("synth", "--out", "somewhere")
    assert status == 2 and "--records" in err
