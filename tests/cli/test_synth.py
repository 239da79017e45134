"""`kafkagroups synth`: what it prints, and what it refuses."""

import json

import kafkagroups as kg


def test_json_is_what_was_written(tmp_path, run):
    """One line; a load finds the same."""
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
