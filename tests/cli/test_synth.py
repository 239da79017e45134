"""`kafkagroups synth`: what it prints, and what it writes."""

import json

from kafkagroups import synth

SETTINGS = {"partitions": 3, "groups": 40, "keys": 20, "skew": 0.5, "modern": 0.2, "members": 2}
SETTINGS |= {"tombstones": 0.1, "generations": 0.01, "metadata": 0.1, "aborts": 0.2, "hanging": 0.05}
SETTINGS |= {"transactional": 0.5, "prefix": "shop.", "codec": "zstd", "segment_bytes": 5000, "seed": 7}


def test_each_option_is_a_parameter_of_the_function(tmp_path, run):
    """4k is a number of records, and `varied` a width. The JSON is the summary, and the bytes are the same."""
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SETTINGS.items()]
    status, out, err = run("synth", "--out", tmp_path / "a", "--records", "4k", "--width=varied", "--json", *options)
    written = synth.write(tmp_path / "b", 4000, width=None, **SETTINGS)
    assert (status, err, json.loads(out)) == (0, "", json.loads(json.dumps(written)))
    a, b = ([(f.name, f.read_bytes()) for f in sorted((tmp_path / name).rglob("*.log"))] for name in "ab")
    assert a == b


def test_a_table_for_people(tmp_path, run):
    status, out, err = run("synth", "--out", tmp_path, "--records", 1000, "--partitions", 1, "--transactional", 1)
    assert (status, err) == (0, "")
    assert "1000 records" in out and "live offsets" in out and "committed" in out
