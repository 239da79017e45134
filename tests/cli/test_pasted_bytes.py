"""`decode` takes bytes in the forms in which other tools print them."""

import base64
import json
import re

import pytest
from hypothesis import given, strategies as st

from tests.captured import rows
from tests.command import ask_json

KEY = bytes.fromhex("0001000762696c6c696e6700066f726465727300000002")
VALUE = bytes.fromhex("00030000000000000005ffffffff0000000001a1fd61df48")
XXD = """\
00000000: 0001 0007 6269 6c6c 696e 6700 066f 7264  ....billing..ord
00000010: 6572 7300 0000 02                        ers....
"""
TCPDUMP = """\
\t0x0000:  0001 0007 6269 6c6c 696e 6700 066f 7264  ....billing..ord
\t0x0010:  6572 7300 0000 02                        ers....
"""
HEXDUMP = """\
00000000  00 01 00 07 62 69 6c 6c  69 6e 67 00 06 6f 72 64  |....billing..ord|
00000010  65 72 73 00 00 00 02                              |ers....|
00000017
"""
FORMS = {
    "hex": lambda data: data.hex(),
    "capital hex": lambda data: data.hex().upper(),
    "0x": lambda data: f"0x{data.hex()}",
    "0x before each byte": lambda data: ", ".join(f"0x{byte:02x}" for byte in data),
    "spaces": lambda data: data.hex(" "),
    "colons": lambda data: data.hex(":"),
    "escapes": lambda data: "".join(f"\\x{byte:02x}" for byte in data),
    "escapes in quotes": lambda data: '"' + "".join(f"\\x{byte:02x}" for byte in data) + '"',
    "quotes": lambda data: f"'{data.hex()}'",
    "Python's bytes": repr,
    "Java's list": lambda data: str([byte - 256 if byte > 127 else byte for byte in data]),
    "JSON's list": lambda data: json.dumps(list(data), separators=(",", ":")),
}


UNKNOWN = b"\x00\x63"
"""The start of a key of type 99, which `decode` shows in hex."""


def key_of(text):
    return bytes.fromhex(ask_json("decode", text, "--json")["key"]["hex"])


@given(form=st.sampled_from(list(FORMS.values())), data=st.binary(max_size=60))
def test_each_form_means_the_same_bytes(form, data):
    assert key_of(form(UNKNOWN + data)) == UNKNOWN + data


@given(data=st.binary(max_size=60))
def test_base64_is_read_if_it_is_no_hex(data):
    key = UNKNOWN + data
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for text in (encode(key).decode(), encode(key).decode().rstrip("=")):
            assert key_of(text) == key


@pytest.mark.parametrize("text", [XXD, TCPDUMP, HEXDUMP, XXD.splitlines()[0] + "\n00000010: 65727300 000002"])
def test_the_lines_of_a_dump_are_joined(text):
    """The lines that xxd, xxd -g 4, tcpdump -X and hexdump -C print of the key."""
    assert ask_json("decode", text, "--json") == ask_json("decode", KEY.hex(), "--json")


@pytest.mark.parametrize("text", ["null", "<DELETE>", "", " "])
def test_a_tombstone_has_many_names(run, text):
    assert run("decode", KEY.hex(), text, "--json") == run("decode", KEY.hex(), "--json")


def test_the_json_of_the_console_consumer_is_a_record(run):
    """As kafka-console-consumer of 4.x prints it, and that of 3.9, where the type of the key is its version."""
    status, out, _ = run("decode", KEY.hex(), VALUE.hex(), "--json")
    assert status == 0
    fields = json.loads(out)
    record = {name: fields[name] for name in ("key", "value")}
    assert json.loads(run("decode", json.dumps(record), "--json")[1]) == fields
    record["key"] = {"version": record["key"]["type"], "data": record["key"]["data"]}
    assert json.loads(run("decode", json.dumps(record), "--json")[1]) == fields
    assert run("encode", "--jsonl", stdin=json.dumps(record))[1] == run("encode", "--jsonl", stdin=out)[1]


def printed_fields(out):
    """Return the fields of the table that `decode` prints."""
    return re.findall(r" (\w+) +(?:int16|int32|int64|string)\b", out)


def test_the_fields_before_an_error_are_shown(run, monkeypatch):
    """A record that is cut short has the first fields of the whole record, and at least all whole ones."""
    monkeypatch.setenv("COLUMNS", "200")
    whole = printed_fields(run("decode", KEY.hex(), VALUE.hex())[1])
    assert len(whole) == 11
    shown = [printed_fields(run("decode", KEY.hex(), VALUE[:size].hex())[1]) for size in range(1, len(VALUE))]
    shown = [printed_fields(run("decode", KEY[:size].hex())[1]) for size in range(1, len(KEY))] + shown
    assert all(fields == whole[: len(fields)] for fields in shown)
    # A string that is cut is an error at its length.
    assert {*map(len, shown)} == {*range(11)} - {2, 4} and sorted(shown, key=len) == shown


def test_every_refused_record_is_shown_up_to_its_error(run, monkeypatch):
    """errors.jsonl: what 4.3.1's reader refused. The error is one line, and no row is behind its position."""
    monkeypatch.setenv("COLUMNS", "20000")
    refused = [row for row in rows("records", "errors.jsonl") if "error" in row["4.3.1"] and row["key_hex"]]
    # A loader skips an unknown type. On the command line, an empty value is a tombstone.
    refused = [row for row in refused if row["class"] != "unknown_type" and row["value_hex"] != ""]
    assert len(refused) > 600
    for row in refused:
        status, out, err = run("decode", row["key_hex"], row["value_hex"] or "null")
        assert (status, err.count("\n")) == (1, 1), row["id"]
        place = re.search(r"byte (\d+), (key|value)", err)
        part = out.partition("\nvalue")[2] if place[2] == "value" else out
        assert all(int(byte) < int(place[1]) for byte in re.findall(r"^(?:key|value)? +(\d+) ", part, re.M)), row["id"]
