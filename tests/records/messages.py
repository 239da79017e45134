"""Hypothesis strategies and sample messages for every record type, made from the declared fields."""

import contextlib
import functools

from hypothesis import strategies as st

import kafkagroups as kg
from kafkagroups.records.serde import RECORD_TYPES
from kafkagroups.records.structs import Message, Struct, TaggedField, make_format
from kafkagroups.records.wire import Array, Bytes, Int, String, Uuid, uuid_text

READERS = [
    *(kg.dialect("new", version) for version in ("4.4.0", "4.3.1", "4.1.2", "4.0.2")),
    *(kg.dialect("classic", version) for version in ("1.0.1", "2.3.1", "2.8.2", "3.9.2")),
]
NEWEST = kg.dialect("new", "4.3.1")
OFFSET_COMMIT = RECORD_TYPES[1].value

names = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
java_strings = st.text(st.characters(), max_size=12)
"""Strings with halves of surrogate pairs. A JVM's strings can hold them, its UTF-8 cannot."""


@functools.cache
def readable(rules):
    """Return (type, class of the value, version) of everything that these rules read."""
    found = []
    for kind in RECORD_TYPES.values():
        cls = OFFSET_COMMIT if kind.id == 0 and rules.max_type0_value_version else kind.value
        for version in range(5):
            with contextlib.suppress(kg.InvalidRecord, kg.UsageError):
                if kg.decode(*sample(kind, cls, version, rules), rules).name != "Unknown":
                    found.append((kind, cls, version))
    return found


def sample(kind, cls, version, rules, size=1):
    """Return the key and value of a record that `filled` made."""
    value = filled(cls, version, rules, size)
    return kg.encode(kg.Record(kind.id, filled(kind.key, 0, rules), value, version), rules)


def filled(cls, version, rules, size=1):
    """Return a message without defaults: arrays, strings and bytes of `size`, and an unknown tag in each struct.

    Arrays inside arrays have one element, so that the message stays small.
    """
    form = make_format(cls, version, rules.version)
    fields = {spec.name: _full(spec.wire, form, rules, size) for spec in cls.specs if spec.is_in(form)}
    return cls(**fields, unknown_tagged_fields=(TaggedField(99, b"unknown"),) if form.flexible else ())


def _full(wire, form, rules, size):
    if isinstance(wire, Struct):
        return filled(wire.cls, form.version, rules, size)
    if isinstance(wire, Array):
        return (_full(wire.element_type, form, rules, min(size, 1)),) * size
    if isinstance(wire, String):
        return "é" + "x" * (size - 2) if size > 1 else "x" * size
    if isinstance(wire, Bytes):
        return b"\xff" * size
    return uuid_text(bytes(range(16))) if isinstance(wire, Uuid) else 7


@st.composite
def records(draw, rules, text=names):
    """Draw any record that the Kafka version of these rules can write, tombstones too."""
    kind, cls, version = draw(st.sampled_from(readable(rules)))
    key = draw(messages(kind.key, 0, rules.version, text))
    if draw(st.integers(0, 9)) == 0:
        return kg.Record(kind.id, key, None, None)
    return kg.Record(kind.id, key, draw(messages(cls, version, rules.version, text)), version)


def messages(cls, version, kafka, text=names):
    """Return a strategy for the messages of this class and version that this Kafka version can write."""
    form = make_format(cls, version, kafka)
    present = [spec for spec in cls.specs if spec.is_in(form)]
    fields = {spec.name: _field(spec, form, text) for spec in present}
    if form.flexible:
        fields["unknown_tagged_fields"] = _unknown_tags({spec.tag for spec in present})
    return st.builds(cls, **fields)


def _field(spec, form, text):
    values = _values(spec.wire, form, text)
    if spec.nullable:
        values = st.none() | values
    return values if spec.tag is None else st.just(spec.default) | values


def _values(wire, form, text):
    if isinstance(wire, Struct):
        return messages(wire.cls, form.version, form.kafka, text)
    if isinstance(wire, Array):
        return st.lists(_values(wire.element_type, form, text), max_size=3).map(tuple)
    if isinstance(wire, Int):
        return st.integers(wire.minimum, wire.maximum)
    if isinstance(wire, Uuid):
        return st.binary(min_size=16, max_size=16).map(uuid_text)
    assert isinstance(wire, String | Bytes), wire
    return text if isinstance(wire, String) else st.binary(max_size=12)


def _unknown_tags(known):
    number = st.integers(0, 20) | st.integers(0, 2**31 - 2)
    numbers = st.lists(number.filter(lambda tag: tag not in known), unique=True, max_size=2)
    return numbers.flatmap(
        lambda tags: st.tuples(*(st.builds(TaggedField, st.just(tag), st.binary(max_size=9)) for tag in sorted(tags)))
    )


def with_strings(value, change):
    """Return the same message, with `change` applied to each of its strings."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, TaggedField):
        return value
    if isinstance(value, tuple):
        return tuple(with_strings(element, change) for element in value)
    if isinstance(value, Message):
        content = {spec.name: with_strings(getattr(value, spec.name), change) for spec in type(value).specs}
        return type(value)(**content, unknown_tagged_fields=value.unknown_tagged_fields)
    return value
