"""`decode` takes bytes in the forms in which other tools print them (CONTRACT 45)."""

import base64
import json

import pytest
from hypothesis import given, strategies as st

from kafkagroups.cli.pasted_bytes import read_bytes

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


@pytest.mark.parametrize("form", FORMS)
@given(data=st.binary(min_size=1, max_size=60))
def test_each_form_means_the_same_bytes(form, data):
    assert read_bytes(FORMS[form](data), "KEYHEX") == data


@given(data=st.binary(min_size=1, max_size=60))
def test_base64_is_read_if_it_is_no_hex(data):
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for text in (encode(data).decode(), encode(data).decode().rstrip("=")):
            try:
                wanted = bytes.fromhex(text)
            except ValueError:
                wanted = data
            assert read_bytes(text, "KEYHEX") == wanted


@pytest.mark.parametrize("text", [XXD, TCPDUMP, HEXDUMP, XXD.splitlines()[0] + "\n00000010: 65727300 000002"])
def test_the_lines_of_a_dump_are_joined(text):
    """The lines that xxd, xxd -g 4, tcpdump -X and hexdump -C print of the key."""
    assert read_bytes(text, "KEYHEX") == KEY


@pytest.mark.parametrize("text", ["null", "<DELETE>", "", " "])
def test_a_tombstone_has_many_names(run, text):
    assert run("decode", KEY.hex(), text, "--json") == run("decode", KEY.hex(), "--json")
    assert read_bytes(text, "VALUEHEX") is None


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


@pytest.mark.parametrize("text", ["0001f", "[0, 300]", "[0, x]", "hello world!", "b'\\x0'", "{", "'"])
def test_other_texts_are_refused_with_their_beginning(run, text):
    status, out, err = run("decode", text)
    assert (status, out) == (2, "") and err.startswith("kafkagroups: KEYHEX: expected")
