"""The pages about records: every record type and every field, with versions."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import NamedTuple

from handbook_pages.markdown import (
    link_heading,
    make_sentence,
    make_slug,
    make_table,
    read_paragraphs,
    read_source,
    read_table,
)
from kafkagroups.records import (
    consumer_group,
    consumer_protocol,
    group_metadata,
    offset_commit,
    releases,
    share_group,
    streams_group,
    wire,
)
from kafkagroups.records.releases import (
    AFTER_ALL_VERSIONS,
    EVERY_VERSION,
    VERSION_2_1_IV0,
    VersionRange,
    feature_releases,
)
from kafkagroups.records.serde import RECORD_TYPES, ControlType, RecordType
from kafkagroups.records.structs import FieldSpec, Message, Struct, make_format
from kafkagroups.records.wire import LARGEST_VERSION, Array, Wire
from kafkagroups.records.written_versions import WrittenValue, find_written_values

MARKERS = (ControlType.ABORT, ControlType.COMMIT)
FIELD_HEADERS = ("field", "type", "value versions", "since Kafka", "meaning")


class Family(NamedTuple):
    """Record types with one page.

    `about` says in one word what they are about. `module` declares them. `type_ids` are their numbers.
    """

    page: str
    title: str
    about: str
    module: ModuleType
    type_ids: tuple[int, ...]


CLASSIC_GROUPS = Family("records-classic.md", "The record of a classic group", "classic", group_metadata, (2,))
FAMILIES = (
    Family("records-offsets.md", "Records of offsets", "offsets", offset_commit, (0, 1)),
    CLASSIC_GROUPS,
    Family("records-consumer.md", "Records of consumer groups", "consumer", consumer_group, (3, 4, 5, 6, 7, 8, 16)),
    Family("records-share.md", "Records of share groups", "share", share_group, (9, 10, 11, 12, 13, 14, 15)),
    Family("records-streams.md", "Records of streams groups", "streams", streams_group, (17, 19, 20, 21, 22, 23)),
)


def write_pages() -> dict[str, str]:
    """Return the pages by their names."""
    pages = {family.page: _write_family(family) for family in FAMILIES}
    return {"records.md": _write_overview(), **pages}


def find_family(record_type: RecordType) -> Family:
    """Return the family of a record type."""
    return next(family for family in FAMILIES if record_type.id in family.type_ids)


def make_title(record_type: RecordType) -> str:
    """Return the heading of a record type."""
    return f"Type {record_type.id}: {record_type.name}"


def describe_type(record_type: RecordType) -> str:
    """Return what a record type stores, in one sentence without a period."""
    first_paragraph = _read_description(record_type)[0]
    sentence, _, _ = first_paragraph.partition(". ")
    return sentence.rstrip(".")


def describe_writers(written_values: Iterable[WrittenValue]) -> str:
    """Return the Kafka versions that write values, for example "0.9 to 2.0; later only with a retention time"."""
    texts = []
    for written in written_values:
        text = describe_range(written.range)
        if written.needs_retention_time:
            text += " only if the client sends a retention time (requests of versions 2 to 4)"
        texts.append(text)
    return "; ".join(texts)


def describe_all_writers(record_type: RecordType) -> str:
    """Return the Kafka versions that write values of a type, in any value version."""
    ranges = [written.range for written in find_written_values(record_type.id)]
    first = min(each.since for each in ranges)
    return describe_range(VersionRange(first, max(each.until for each in ranges)))


def describe_range(versions: VersionRange) -> str:
    """Return a range of Kafka versions as text: "0.9 to 2.0", "since 4.1", "only 4.0"."""
    if versions == EVERY_VERSION:
        return "all"
    names = {version: name for name, version in feature_releases().items()}
    names[VERSION_2_1_IV0] = "2.1-IV0"
    first = min(version for version in names if version >= versions.since)
    if versions.until == AFTER_ALL_VERSIONS:
        return f"since {names[first]}"
    last = max(version for version in names if version < versions.until)
    return f"only {names[first]}" if first == last else f"{names[first]} to {names[last]}"


# The overview


def _write_overview() -> str:
    rows = [
        (
            str(record_type.id),
            f"[{record_type.name}]({find_family(record_type).page}#{make_slug(make_title(record_type))})",
            find_family(record_type).about,
            describe_type(record_type),
            describe_all_writers(record_type),
        )
        for record_type in RECORD_TYPES.values()
    ]
    markers = [
        (str(marker.value), marker.name, "commits" if marker.name == "COMMIT" else "aborts") for marker in MARKERS
    ]
    parts = [
        "# Record types",
        "A record has a key and a value. The first two bytes of the key are the record type (int16). The first two "
        "bytes of the value are the value version (int16). A record without a value is a tombstone: it deletes the "
        "earlier records with the same key.",
        "Only Kafka 4.0 has type 9. There is no type 18.",
        make_table(("type", "name", "about", "what it stores", "written by"), rows),
        "## Which coordinator reads what",
        *read_paragraphs(releases.__doc__)[1:2],
        read_table(releases.__doc__),
        "[Releases of Kafka](../releases.md) lists the records that a release refuses, although it can decode them.",
        "## Types on the wire",
        "All integers are big-endian. A uuid has 16 bytes. A flexible version has compact lengths, and ends with a "
        "section of tagged fields.",
        read_table(wire.__doc__),
        "A uvarint is an unsigned integer with 7 bits in each byte. The lowest bits come first, and the highest bit of "
        "a byte says that another byte follows.",
        "## Markers",
        *read_paragraphs(ControlType.__doc__)[1:2],
        read_table(ControlType.__doc__),
        make_table(
            ("type", "name", "the transaction"), [(a, b, f"The marker {c} the transaction.") for a, b, c in markers]
        ),
        f"Source: {read_source(inspect.getdoc(ControlType))}",
    ]
    return "\n\n".join(parts) + "\n"


# One family


def _write_family(family: Family) -> str:
    parts = [f"# {family.title}", *read_paragraphs(family.module.__doc__)[1:]]
    parts.append(
        "In Python, a field has the same name with underscores: `commitTimestamp` is `commit_timestamp`. The column "
        "*value versions* names the versions of the value that have the field. The column *since Kafka* is only for "
        "fields that a Kafka version added without a new value version."
    )
    record_types = [RECORD_TYPES[type_id] for type_id in family.type_ids]
    for record_type in record_types:
        parts += _write_type(record_type)
    structs = list(_find_structs(record_type.value for record_type in record_types))
    if family is CLASSIC_GROUPS:
        parts += _write_embedded()
        structs += _find_structs([consumer_protocol.ConsumerProtocolSubscription])
    if structs:
        parts.append("## Structs")
        parts.append("These structs are inside the values above.")
        for struct in structs:
            parts += [f"### {struct.__name__}", read_paragraphs(struct.__doc__)[0], _make_field_table(struct, 0)]
    parts.append(f"Source: {read_source(family.module.__doc__)}")
    return "\n\n".join(parts) + "\n"


def _read_description(record_type: RecordType) -> list[str]:
    """Return the paragraphs of the docstring of a value, without the number of the type at the beginning."""
    first, *others = read_paragraphs(record_type.value.__doc__)
    prefix = f"Type {record_type.id}"
    if first.startswith(prefix):
        start, _, rest = first.partition(": ")
        addition = start.removeprefix(prefix).removeprefix(", ")
        first = rest[:1].upper() + rest[1:]
        if addition:
            others[:1] = [" ".join([make_sentence(addition), *others[:1]])]
    return [first, *others]


def _write_type(record_type: RecordType) -> list[str]:
    parts = [f"## {make_title(record_type)}", *_read_description(record_type)]
    parts.append("**Key**")
    parts.append(_make_field_table(record_type.key, 0, headers=("field", "type", "meaning")))
    parts.append("**Value**")
    parts.append(make_table(("value version", "layout", "written by"), _list_versions(record_type)))
    parts.append(_make_field_table(record_type.value, record_type.highest_version))
    if record_type.id > 2:
        parts.append(f"The new coordinator reads this type: {describe_range(record_type.read_by)}.")
    return parts


def _list_versions(record_type: RecordType) -> Iterator[tuple[str, str, str]]:
    written = find_written_values(record_type.id)
    for version in range(record_type.highest_version + 1):
        is_flexible = make_format(record_type.value, version).flexible
        writers = describe_writers(each for each in written if each.version == version)
        if not writers and record_type.id == 1:
            writers = "0.8.2, with type 0 in the key"
        yield str(version), "flexible" if is_flexible else "not flexible", writers or "no broker"


def _make_field_table(cls: type[Message], highest_version: int, headers: tuple[str, ...] = FIELD_HEADERS) -> str:
    """Return the table of the fields of a message. `headers` are those of the columns that it has."""
    rows = []
    for spec in cls.specs:
        cells = {
            "field": f"`{spec.json_name}`",
            "type": _describe_type_of(spec),
            "value versions": _describe_versions(spec, highest_version),
            "since Kafka": "" if spec.since == (0,) else ".".join(map(str, spec.since)),
            "meaning": spec.doc,
        }
        rows.append([cells[header] for header in headers])
    return make_table(headers, rows)


def _describe_type_of(spec: FieldSpec) -> str:
    text = _describe_wire(spec.wire)
    if spec.nullable:
        text += ", can be null"
    return text if spec.tag is None else f"{text}, tagged field {spec.tag}"


def _describe_wire(wire: Wire) -> str:
    if isinstance(wire, Array):
        return f"array of {_describe_wire(wire.element_type)}"
    return link_heading(wire.name) if isinstance(wire, Struct) else wire.name


def _describe_versions(spec: FieldSpec, highest_version: int) -> str:
    first = spec.versions.start
    last = spec.versions.stop - 1
    if first == 0 and last >= highest_version:
        return "all"
    if last >= LARGEST_VERSION:
        return f"{first} and later"
    return str(first) if first == last else f"{first} to {last}"


def _find_structs(classes: Iterable[type[Message]]) -> Iterator[type[Message]]:
    """Yield each struct inside messages once, in the order of the declarations."""
    seen: set[type[Message]] = set()
    waiting = list(classes)
    while waiting:
        for spec in waiting.pop(0).specs:
            wire = spec.wire.element_type if isinstance(spec.wire, Array) else spec.wire
            if isinstance(wire, Struct) and wire.cls not in seen:
                seen.add(wire.cls)
                waiting.append(wire.cls)
                yield wire.cls


def _write_embedded() -> list[str]:
    """Return the section about the bytes in `subscription` and `assignment`."""
    parts = ["## Subscription and assignment", *read_paragraphs(consumer_protocol.__doc__)[1:]]
    for cls in (consumer_protocol.ConsumerProtocolSubscription, consumer_protocol.ConsumerProtocolAssignment):
        parts += [f"### {cls.__name__}", *read_paragraphs(cls.__doc__)]
        parts.append(_make_field_table(cls, consumer_protocol.HIGHEST_VERSION))
    parts.append(f"Source: {read_source(consumer_protocol.__doc__)}")
    return parts
