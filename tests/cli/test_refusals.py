"""A wrong command is one clear line on stderr, nothing on stdout, no output folder, and the exit code 2."""

import json
import shlex
import shutil
from pathlib import Path

import pytest

HARBOUR = Path(__file__).parents[2] / "data" / "harbour"
FOLDER = str(HARBOUR / "3.9.2")
WORDS = {"LOG": f"{FOLDER}/__consumer_offsets-9", "FOLDER": FOLDER}
REFUSED = {
    # Commands and options
    "": "the following arguments are required: COMMAND",
    "lod": "the nearest one is load (see kafkagroups",
    "time-line": "the nearest one is timeline (see kafkagroups",
    "load": "the following arguments are required: PATH",
    "load x --engin y": "unrecognized arguments: --engin",
    "load LOG --partition 2": "unrecognized arguments: --partition; the nearest one is --partitions",
    "load LOG --part 2": "unrecognized arguments: --part; the nearest one is --partitions",
    "load LOG --jso": "unrecognized arguments: --jso; the nearest one is --json",
    "load LOG --coord=classic": "unrecognized arguments: --coord; the nearest one is --coordinator",
    "explain LOG --grp billing": "the nearest one is --group (see kafkagroups",
    "rescue plan LOG --kafak 3.9.2": "the nearest one is --kafka (see kafkagroups",
    "timeline FOLDER": "the following arguments are required: --group",
    "synth --out OUT": "the following arguments are required: --records",
    "rescue": "the following arguments are required: STEP",
    "rescue plan": "the following arguments are required: PATH",
    "completion csh": "expected bash, zsh or fish, found 'csh'",
    "decode": "expected either KEYHEX or --jsonl",
    "partition billing --partitions 0": "a topic has at least 1 partition, not 0",
    "stats LOG --top 0": "--top: expected at least 1, found 0",
    # Releases
    "load LOG --kafka new": "'new'",
    "load FOLDER --coordinator classic --kafka 4.3.1": "no classic coordinator",
    "load LOG --kafka 3.9.2foo": "'3.9.2foo'",
    "stats LOG --kafka 3.9.2foo": "'3.9.2foo'",
    "explain LOG --group billing --kafka 3.9.2foo": "'3.9.2foo'",
    "timeline LOG --group billing --kafka 3.9.2foo": "'3.9.2foo'",
    "rescue plan LOG --kafka 3.9.2foo": "'3.9.2foo'",
    "diff LOG LOG --kafka 3.9.2foo": "'3.9.2foo'",
    "dump LOG --kafka 3.9.2foo": "'3.9.2foo'",
    "dump LOG --format dump-log --kafka 3.9.2foo": "'3.9.2foo'",
    "dump LOG --format formatter --kafka 3.9.2foo": "'3.9.2foo'",
    "decode 000200016700 --kafka 3.9.2foo": "'3.9.2foo'",
    "encode --jsonl --kafka 3.9.2foo": "'3.9.2foo'",
    "dump LOG --format dump-log --kafka 0.9.0.1": "0.10.2",
    # Where the reading ends, and which part is shown
    "load FOLDER --until 20": "an offset to stop at needs one partition",
    "check LOG --to-coordinator new": "needs the Kafka version to change to",
    "check LOG --to 9.9.9.9": "is not a Kafka release",
    "check LOG --to 4.3.1 --to-coordinator classic": "no classic coordinator",
    "load LOG --max-batch-bytes 0": "max_batch_bytes: expected at least 1, found 0",
    "load LOG --until-time noon": "expected ms since 1970 or ISO 8601",
    "explain FOLDER --group billing --partition 0": "together with a topic",
    "explain FOLDER --group nobody --until 20": "an offset to stop at needs one partition",
    "explain FOLDER --group billing --retention '7 weeks'": "expected minutes",
    "load LOG --snapshot OUT --past-damage": "--snapshot cannot be used with",
    "dump LOG --format dump-log --past-damage": "--past-damage cannot be used with --format dump-log",
    "dump LOG --format formatter --past-damage": "--past-damage cannot be used with --format formatter",
    "dump LOG --type Offset": "--type: expected a number or one of",
    **{
        f"dump LOG --format {form} {options}": "of the options that select, it takes only --from, "
        for form in ("dump-log", "formatter")
        for options in ("--json", "--group ''", "--type 1", "--tombstones", "--topic t")
    },
    "diff FOLDER": "expected two PATHs, or one PATH with",
    "diff FOLDER FOLDER FOLDER": "expected two PATHs, or one PATH with",
    "diff FOLDER FOLDER --coordinators": "expected two PATHs, or one PATH with",
    "diff FOLDER --coordinators --kafka 4.3.1": "remove --coordinator and --kafka",
    "diff FOLDER nowhere": "nowhere: no such file or folder",
    # Bytes
    **{
        shlex.join(["decode", text]): "KEYHEX: expected"
        for text in ("0001f", "[0, 300]", "[0, x]", "hello world!", "b'\\x0'", "{", "'")
    },
    # Copies and changes
    "compact FOLDER --out OUT": "compaction needs one partition",
    "compact nowhere --out OUT": "no such file or folder",
    "compact LOG --out OUT --map-entries 0": "map_entries: expected a number from 1 to",
    "compact LOG --out OUT --segment-bytes 0": "segment_bytes: expected a number from 1 to",
    "compact LOG --out OUT --now-ms -1": "now_ms: expected a number from 0 to",
    f"compact LOG --out OUT --now-ms {2**63}": "now_ms: expected a number",
    "compact LOG --out OUT --now-ms soon": "expected a whole number",
    "compact LOG --out OUT --delete-retention-ms -1": "delete_retention_ms: expected a number from 0 to",
    "compact LOG --out OUT --first-dirty -1": "first_dirty: expected a number from 0 to",
    "compact LOG --out OUT --first-uncleanable -1": "first_uncleanable: expected a number from 0 to",
    "compact LOG --out OUT --producer-expiration-ms -2": "producer_expiration_ms: expected a number from -1 to",
    "edit LOG --out OUT": "at least one step",
    "edit LOG --out OUT --commit billing": "expected GROUP:TOPIC-PARTITION=OFFSET",
    "edit LOG --out OUT --cut-time soon": "expected ms since 1970 or ISO 8601",
    "edit LOG --out OUT --roll --kafka 5": "is not a Kafka release",
    "edit LOG --out OUT --roll --coordinator classic --kafka 4.3": "no classic coordinator",
    "rescue plan /no/such/log": "no such file or folder",
    "rescue plan FOLDER --rename billing": "expected OLD=NEW, found 'billing'",
    "rescue plan FOLDER --group nobody": "no group matches 'nobody'",
    "synth --out OUT --records many": "expected a number such as 1000, 200k or 1M, found 'many'",
    "synth --out OUT --records infM": "expected a number such as 1000, 200k or 1M, found 'infM'",
    "synth --out OUT --records -1": "records: expected `int` >= 0",
    "synth --out OUT --records 10 --width wide": "a number or the word varied",
}


@pytest.mark.parametrize("command", REFUSED)
def test_a_wrong_command_is_one_line_and_exit_code_2(run, tmp_path, command):
    words = {**WORDS, "OUT": str(tmp_path / "out")}
    status, out, err = run(*(words.get(word, word) for word in shlex.split(command)))
    assert (status, err.count("\n")) == (2, 1) and err.startswith("kafkagroups")
    assert REFUSED[command] in err
    assert out == "" or not command
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["load", "dump"])
def test_a_path_without_a_log_is_named(run, command, tmp_path):
    """A missing path, an empty folder, a picture: exit code 2; a picture that is named a segment: exit code 1."""
    picture = tmp_path / "cat.jpeg"
    picture.write_bytes(bytes.fromhex("ffd8ffe000104a46494600010100000100010000") * 30)
    (tmp_path / "empty" / "__consumer_offsets-7").mkdir(parents=True)
    for path in (tmp_path / "nowhere", tmp_path / "empty", tmp_path / "empty" / "__consumer_offsets-7", picture):
        status, out, err = run(command, path)
        assert (status, out, err.count("\n")) == (2, "", 1) and str(path) in err
    segment = tmp_path / "00000000000000000000.log"
    shutil.copy(picture, segment)
    status, _, err = run(command, segment)
    assert status == 1 and err.count("\n") == 1 and str(segment) in err and "byte 0" in err


def test_a_name_that_is_near_nothing_gets_none(run):
    assert "nearest" not in run("xyzzy")[2] + run("load", WORDS["LOG"], "--xyzzy")[2]


@pytest.mark.parametrize("command", ["load", "explain --group billing", "timeline --group billing", "stats", "check"])
def test_a_path_that_is_wrong_stops_no_other(run, command):
    """Each object or line names its path, and the worst exit code counts."""
    name, *options = command.split()
    paths = [FOLDER, "nowhere", str(HARBOUR / "1.0.1")]
    status, out, err = run(name, *paths, *options, "--json", "--kafka", "3.9.2")
    assert (status, err.count("\n")) == (2, 1) and "nowhere" in err
    assert list(dict.fromkeys(json.loads(line)["path"] for line in out.splitlines())) == [paths[0], paths[2]]
