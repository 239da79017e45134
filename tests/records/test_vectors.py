"""Records against Kafka's own serializers and readers: vectors, errors, embedded bytes, control records."""

import base64
import json

import pytest

import kafkagroups as kg
from kafkagroups.records import consumer_protocol
from kafkagroups.records.serde import RECORD_TYPES
from kafkagroups.records.structs import (
    Struct,
    from_json as fields_from_json,
    make_format,
    to_json as fields_to_json,
    write_message,
)
from kafkagroups.records.wire import Array, Int, Uuid, decode_utf8, encode_utf8
from tests.captured import captured, rows
from tests.cases import case
from tests.handmade import (
    ControlType,
    OffsetCommitValue,
    decode_control_key,
    decode_end_transaction_marker,
    encode_control_key,
    encode_end_transaction_marker,
    encode_versioned,
)
from tests.records.judge import bytes_of, judge

VECTORS = sorted(path.name for path in (captured("vectors") / "vectors").glob("*.jsonl"))
CORPUS = [
    *(("vectors", f"vectors/{name}", "4.3.1") for name in VECTORS),
    ("records", "helpers.jsonl", "4.3.1"),
    ("v440", "v440/vectors.jsonl", "4.4.0"),
    ("v440", "v440/helpers.jsonl", "4.4.0"),
]
"""The rows of Kafka's serializers, and of the builders of a coordinator's records, with the release of each."""


@pytest.mark.parametrize(("family", "name", "kafka"), CORPUS)
def test_a_vector_decodes_to_kafkas_json_and_encodes_to_its_bytes(family, name, kafka):
    """Read strictly; each field of Kafka's JSON that is no struct or array is a span with this value and a meaning."""
    rules = kg.dialect("new", kafka)
    for row in rows(family, name):
        with case(row["id"]):
            key, value = bytes_of(row)
            record = kg.decode(key, value, rules, strict=True)
            shown = kg.to_json(record, rules)
            assert (shown["type"], shown["name"]) == (row["type"], row["name"])
            assert shown["key"] == {"type": str(row["type"]), "data": row["key"]}
            version = str(row["value_version"])
            assert shown["value"] == (None if value is None else {"version": version, "data": row["value"]})
            assert kg.from_json(json.loads(json.dumps(shown)), rules) == record
            assert judge(key, value, rules) == record and kg.deviations(key, value, rules) == []
            spans = kg.annotate(key, value, rules)
            assert all(span.meaning for span in spans)
            for part, fields in (("key", row["key"]), ("value", row["value"] or {})):
                own = [span for span in spans if span.part == part and not span.type.endswith("length")]
                values = {span.field: span.value for span in own}
                plain = {name: said for name, said in fields.items() if said and not isinstance(said, list | dict)}
                assert values.items() >= plain.items()


def without_unknown_tags(value):
    if isinstance(value, dict):
        return {name: without_unknown_tags(content) for name, content in value.items() if name[0] != "_"}
    return [without_unknown_tags(element) for element in value] if isinstance(value, list) else value


def verdicts():
    """Yield every row of errors.jsonl with the verdict of every reader.

    Readers that differ from 4.3.1 and 3.9.2 are in errors_other_versions.jsonl. A classic version without a verdict has
    that of the next newer one. A different error alone is not listed: 4.0.2 does not have the types from 17 on,
    whatever is wrong with their values.
    """
    others = {row["id"]: row for row in rows("records", "errors_other_versions.jsonl")}
    for row in rows("records", "errors.jsonl"):
        other = others.get(row["id"], {})
        readers = {"new-4.3.1": row["4.3.1"], "new-4.1.2": other.get("4.1.2", row["4.3.1"])}
        readers["new-4.0.2"] = other.get("4.0.2", row["4.3.1"])
        if "error" in readers["new-4.0.2"] and "0011" <= (row["key_hex"] or "")[:4] <= "0017":
            readers["new-4.0.2"] = {"error": {"class": "UnknownRecordTypeException"}}
        newer = row["classic-3.9.2"]
        readers["classic-3.9.2"] = newer
        for version in ("2.8.2", "2.3.1", "1.0.1"):
            newer = other.get(f"classic-{version}", newer)
            readers[f"classic-{version}"] = newer
        yield row, readers


def test_odd_bytes_get_the_verdict_and_the_value_of_every_reader():
    """Each reader accepts or refuses the bytes as Kafka's class did, and reads the same value."""
    for row, readers in verdicts():
        key, value = bytes_of(row)
        for name, expected in readers.items():
            coordinator, _, version = name.partition("-")
            compare = compare_new if coordinator == "new" else compare_classic
            with case(f"{row['id']}, {name}"):
                compare(key, value, kg.dialect(coordinator, version), expected)


def compare_new(key, value, rules, expected):
    if "error" in expected and "UnknownRecordType" not in expected["error"]["class"]:
        with pytest.raises(kg.InvalidRecord) as caught:
            kg.decode(key, value, rules)
        assert caught.value.reason and caught.value.field
        return
    record = kg.decode(key, value, rules)
    if "error" in expected:  # Kafka's loader skips an unknown type. We keep it.
        assert record.name == "Unknown" and kg.encode(record) == (key, value)
        return
    ok = expected["ok"]
    shown = kg.to_json(record, rules)
    assert shown["key"]["data"] == ok["key"]
    if value is None:
        assert record.value is None
        return
    assert without_unknown_tags(shown["value"]["data"]) == ok["value"]
    if "rewrite_error" in ok:
        with pytest.raises(kg.UsageError):
            kg.encode(record, rules)
    else:
        whole = value[: len(value) - ok["value_left"]]
        assert kg.encode(record, rules)[1] == bytes.fromhex(ok.get("rewrite_value_hex", whole.hex()))
        assert kg.from_json(shown, rules) == record


def compare_classic(key, value, rules, expected):
    if "error" in expected:
        with pytest.raises(kg.InvalidRecord):
            kg.decode(key, value, rules)
        return
    record = kg.decode(key, value, rules)
    read = expected["ok"].get("value")
    if isinstance(record.value, OffsetCommitValue) and read:
        assert (record.value.offset, record.value.metadata) == (read["offset"], read["metadata"])
        assert record.value.commit_timestamp == read["commitTimestamp"]
        assert record.value.leader_epoch == (-1 if read.get("leaderEpoch") is None else read["leaderEpoch"])
        assert record.value.expire_timestamp == (-1 if read["expireTimestamp"] is None else read["expireTimestamp"])
    elif read:
        assert (record.value.protocol_type, record.value.generation) == (read["protocolType"] or "", read["generation"])
        members = {member["memberId"]: member for member in read["members"]}
        assert {member.member_id for member in record.value.members} == set(members)
        for member in {member.member_id: member for member in record.value.members}.values():
            answer = members[member.member_id]
            assert (member.client_id, member.client_host) == (answer["clientId"], answer["clientHost"])
            assert member.session_timeout == answer["sessionTimeoutMs"]
            if record.value_version:  # version 0 has none, and the session's stands for it
                assert member.rebalance_timeout == answer["rebalanceTimeoutMs"]
            assert base64.b64encode(member.assignment).decode() == answer["assignment"]
            assert base64.b64encode(member.subscription).decode() == answer["supportedProtocols"][0]["metadata"]


def test_a_writer_refuses_what_kafkas_writers_refuse_and_drops_what_they_drop():
    """Every row of writer_refusals.jsonl: one field set, the rest at its default, one version."""
    seen = 0
    for row in rows("records", "writer_refusals.jsonl"):
        kind = RECORD_TYPES[row["type"]]
        if row["set_to"] == "null" and row["field"] == "topicId":
            continue  # a null uuid is a Java state that no JSON has
        cls = kind.key if row["class"].endswith("Key") else kind.value
        fields = {spec["name"]: spec for spec in schema_fields(row)}
        content = {name: spec["default"] for name, spec in fields.items()}
        content[row["field"]] = setting(row, fields.get(row["field"]))
        seen += 1
        try:
            message = fields_from_json(cls, content, row["version"])
            out = bytearray()
            write_message(out, message, cls, row["version"])
        except kg.UsageError:
            assert "error" in row, row
            continue
        assert "error" not in row, row
        assert len(out) + 2 == row.get("bytes", len(out) + 2)
        if "hex" in row:
            assert out.hex() == row["hex"][4:], row
        if row.get("json"):
            assert fields_to_json(message, row["version"]) == row["json"], row
    assert seen > 250


def schema_fields(row):
    schemas = json.loads((captured("records") / "schemas.json").read_text())
    record = next(record for record in schemas["records"] if record["id"] == row["type"])
    half = record["key" if row["class"].endswith("Key") else "value"]
    layout = half["versions"][str(row["version"])]
    return layout["fields"] + layout.get("tagged_fields", [])


def setting(row, spec):
    sized = {"32767 bytes": 32767, "32768 bytes": 32768}
    if row["set_to"] in sized:
        return "x" * sized[row["set_to"]]
    if row["set_to"] == "null":
        return None
    return "AAAAAAAAAAEAAAAAAAAAAg" if row["field"] == "topicId" else 5


def test_declared_types_and_fields_are_those_of_kafkas_schemas():
    """Types, names, versions, wire types, defaults, nullability and tags, both ways, down to the innermost struct."""
    schemas = json.loads((captured("records") / "schemas.json").read_text())
    rules = (4, 3, 1)
    known = {number for number, kind in RECORD_TYPES.items() if rules in kind.read_by}
    assert {record["id"] for record in schemas["records"]} == known
    for record in schemas["records"]:
        kind = RECORD_TYPES[record["id"]]
        assert (kind.name, kind.highest_version) == (record["name"], record["value"]["highest"])
        assert kind.value.__name__ == record["value"]["class"]
        for cls, half in ((kind.key, record["key"]), (kind.value, record["value"])):
            assert {int(version) for version in half["versions"]} == set(range(half["highest"] + 1))
            assert_declared(cls, half["versions"])
    for name, schema in schemas["other"].items():
        if name.startswith("ConsumerProtocol"):
            assert {int(version) for version in schema["versions"]} == set(range(consumer_protocol.HIGHEST_VERSION + 1))
            assert_declared(getattr(consumer_protocol, name), schema["versions"])


def assert_declared(cls, versions):
    for version, schema in versions.items():
        form = make_format(cls, int(version), (4, 3, 1))
        assert form.flexible == schema["flexible"], cls
        assert [described(spec, form) for spec in cls.specs if spec.is_in(form)] == [
            wanted(field) for field in schema["fields"] + schema.get("tagged_fields", [])
        ]
        for spec in cls.specs:  # A field without versions is not in Kafka, or only a later Kafka has it.
            assert spec.since > (4, 3, 1) or any(int(v) in spec.versions for v in versions), (cls, spec.name)


def described(spec, form):
    default = spec.wire.to_json(spec.default, form) if spec.default is not None else None
    return spec.json_name, spec.nullable, spec.tag, default, wire(spec.wire, form, spec.nullable)


def wire(kind, form, nullable):
    """Return Kafka's name of a wire type, for a struct with its fields."""
    if isinstance(kind, Struct):
        inner = [described(spec, form) for spec in kind.cls.specs if spec.is_in(form)]
        prefix = "(uvarint prefix)" if kind.is_tagged else "(int8 prefix)"
        return ("NULLABLE_STRUCT" + prefix if nullable else "STRUCT", inner)
    if isinstance(kind, Int | Uuid):
        return kind.name.upper()
    name = "ARRAY" if isinstance(kind, Array) else kind.name.upper()
    name = ("COMPACT_" if form.flexible else "") + ("NULLABLE_" if nullable else "") + name
    return (name, wire(kind.element_type, form, False)) if isinstance(kind, Array) else name


def wanted(field):
    return field["name"], field["nullable"], field.get("tag"), field["default"], wanted_wire(field)


def wanted_wire(field):
    if "struct" in field:
        return field["wire"], [wanted(inner) for inner in field["fields"] + field.get("tagged_fields", [])]
    return (field["wire"], wanted_wire(field["element"])) if "element" in field else field["wire"]


def test_embedded_bytes_are_read_and_written_as_kafkas_consumer_protocol_does():
    """Every row of embedded.jsonl: generated, malformed, and taken from the built-in assignors."""
    for row in rows("records", "embedded.jsonl"):
        if row["kind"] == "assignor":
            continue
        data = bytes.fromhex(row["hex"])
        read = kg.decode_subscription if row["kind"] == "subscription" else kg.decode_assignment
        if "deserialize_error" in row:
            with pytest.raises(kg.InvalidRecord):
                read(data)
            continue
        embedded = read(data)
        expected = row["deserialize"]
        message = embedded.message
        data64 = None if message.user_data is None else base64.b64encode(message.user_data).decode()
        assert data64 == expected["userData"], row["id"]
        if row["kind"] == "subscription":
            assert list(message.topics) == expected["topics"], row["id"]
            assert pairs(message.owned_partitions) == expected["ownedPartitions"], row["id"]
            assert (message.generation_id if message.generation_id >= 0 else None) == expected["generationId"]
            assert (message.rack_id or None) == expected["rackId"], row["id"]
        else:
            assert pairs(message.assigned_partitions) == expected["partitions"], row["id"]
        if "json" in row:
            assert (embedded.version, fields_to_json(message, embedded.version)) == (row["version"], row["json"])
            assert encode_versioned(embedded) == data, row["id"]


def pairs(topics):
    return [[topic.topic, partition] for topic in topics for partition in topic.partitions]


def test_control_records_are_read_and_written_as_kafka_does():
    """Every row of control.jsonl."""
    for row in rows("records", "control.jsonl"):
        with_error = "error" in row
        if row["kind"] == "key":
            if with_error:
                with pytest.raises(ValueError):
                    encode_control_key(ControlType[row["type"]])
            else:
                assert encode_control_key(ControlType[row["type"]]).hex() == row["key_hex"]
        elif row["kind"] == "value":
            assert encode_end_transaction_marker(row["coordinatorEpoch"]).hex() == row["value_hex"]
            assert decode_end_transaction_marker(bytes.fromhex(row["value_hex"])) == row["coordinatorEpoch"]
        else:
            key = row["kind"] == "parse_key"
            read = decode_control_key if key else decode_end_transaction_marker
            data = bytes_of(row)[0 if key else 1]
            if with_error:
                with pytest.raises(kg.InvalidRecord):
                    read(data)
            else:
                assert read(data) == (ControlType[row["parsed"]] if key else row["coordinatorEpoch"])


def test_text_is_decoded_and_encoded_as_java_does():
    """Every row of utf8.jsonl: malformed sequences, and halves of surrogate pairs."""
    for row in rows("records", "utf8.jsonl"):
        if "hex" in row:
            text = decode_utf8(bytes.fromhex(row["hex"]))
            assert utf16(text) == row["utf16"], row
            assert encode_utf8(text).hex() == row["reencoded_hex"], row
        else:
            text = "".join(map(chr, row["lone_surrogate_utf16"]))
            assert encode_utf8(text).hex() == row["encoded_hex"], row


def utf16(text):
    data = text.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2)]


def test_a_group_is_stored_in_the_partition_of_its_java_hash():
    """Every row of partition_for.jsonl: Utils.abs(group.hashCode()) % n."""
    for row in rows("records", "partition_for.jsonl"):
        assert kg.partition_for(row["group"], partitions=row["n"]) == row["partition"], row
    with pytest.raises(kg.UsageError):
        kg.partition_for("g", partitions=0)
