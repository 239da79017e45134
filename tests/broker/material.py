"""The logs that the brokers load: captured ones, all of them written again by us, a partition each.

- crafted: every case stands in its own partition of 400. A whole batch of magic 2 is encoded anew; other formats and
  what is meant to be damaged stay as they are.
- runs and harbour: what brokers of ten versions wrote. Every record is decoded, given to a group that lives in a free
  partition, and encoded again; batches and segments are ours. Session time-outs become an hour, so that no member
  leaves while questions are asked. Magic 0 and 1 become magic 2.
- synth: a synthetic partition for each codec, as it was written: transactions, generations, groups of the new protocol.
"""

import itertools
import json
import shutil
from pathlib import Path

from msgspec.structs import replace

import kafkagroups as kg
from kafkagroups import CleanerConfig, InvalidLog, InvalidRecord, compact, synth
from kafkagroups.course.real_broker import HOUR_MS
from kafkagroups.log.batches import parse_batch_at
from tests.captured import captured
from tests.handmade import CompressionType, LogWriter, encode_batch, segment_name

PARTITIONS = 400
SMALL_SEGMENT = 4096
SYNTHETIC = {
    "records": 1500,
    "partitions": PARTITIONS,
    "groups": 40,
    "keys": 20,
    "width": None,
    "skew": 0.5,
    "one_partition": True,
    "tombstones": 0.1,
    "generations": 0.1,
    "transactional": 0.5,
    "hanging": 0.03,
    "modern": 0.3,
    "metadata": 0.2,
    "segment_bytes": 16_384,
}
"""What a synthetic partition holds, in the words of `synth.write`."""
HARBOUR = Path(__file__).parents[2] / "data" / "harbour"


def name(partition: int) -> str:
    return f"__consumer_offsets-{partition}"


def write(folder: Path) -> None:
    """Writes all logs into `folder`, each into a partition of its own."""
    cases = captured("crafted") / "crafted"
    for case in json.loads((cases / "cases.json").read_text()):
        if not case["id"].startswith("d-foreign-"):  # these share partitions
            _write_crafted(cases / "logs" / case["id"] / name(case["partition"]), folder)
    free = [number for number in range(PARTITIONS) if not (folder / name(number)).exists()]
    for codec in CompressionType:
        synthetic = folder / "synthetic"
        home = write_synthetic(folder / "synthetic", codec, free)
        (synthetic / name(home)).rename(folder / name(home))
        synthetic.rmdir()
        free.remove(home)
    for log, home in zip(_captured_logs(), free, strict=False):
        _write_renamed(log, folder / name(home), home)


def write_synthetic(folder: Path, codec: CompressionType, free: list[int]) -> int:
    """Writes a synthetic partition, one of the free ones: the first where groups of that prefix may live."""
    for number in itertools.count():
        prefix = f"{synthetic_groups(codec)}{number}."
        if (home := kg.partition_for(f"{prefix}group-000000", PARTITIONS)) in free:
            synth.write(folder, codec=codec.name.lower(), prefix=prefix, **SYNTHETIC)
            return home
    raise AssertionError


def synthetic_groups(codec: CompressionType) -> str:
    """What their names begin with."""
    return f"synth-{codec.name.lower()}-"


def compacted(source: Path, folder: Path) -> int:
    """What two passes of our cleaner leave of each log in `source`: the first keeps tombstones. Gives how many."""
    many = 0
    for log in sorted(source.iterdir()):
        rolled = folder / f"rolled-{log.name}"
        once = folder / f"once-{log.name}"
        shutil.copytree(log, rolled)
        *_, last = kg.open_log(rolled)
        (rolled / segment_name(last.next_offset)).touch()  # an active segment, so that all before it can be cleaned
        try:
            compact(rolled, once)
            compact(once, folder / log.name, CleanerConfig(now_ms=last.max_timestamp + 10 * 86_400_000))
            many += 1
        except (InvalidLog, InvalidRecord):  # where Kafka's cleaner fails too
            shutil.rmtree(folder / log.name, ignore_errors=True)
            shutil.copytree(log, folder / log.name)
        shutil.rmtree(rolled)
        shutil.rmtree(once, ignore_errors=True)
    return many


def _captured_logs() -> list[Path]:
    """The folders of partitions with something in them, the ones with most bytes first."""
    places = [*HARBOUR.glob("*/__consumer_offsets-*"), *captured("runs").glob("runs/*/*/__consumer_offsets-*")]
    sizes = {place: sum(file.stat().st_size for file in place.glob("*.log")) for place in places}
    return sorted((place for place in places if sizes[place]), key=lambda place: (-sizes[place], str(place)))


def _write_crafted(log: Path, folder: Path) -> None:
    place = folder / log.name
    place.mkdir(parents=True)
    for segment in sorted(log.glob("*.log")):
        data = segment.read_bytes()
        position = 0
        with open(place / segment.name, "wb") as out:
            try:
                while position < len(data):
                    batch = parse_batch_at(data, position)
                    if not batch.is_valid or batch.magic != 2:
                        break
                    out.write(_encoded(batch, batch.records))
                    position += batch.size
            except InvalidLog:
                pass
            out.write(data[position:])


def _encoded(batch, records):
    """The batch with these records, by our writer; base and last offset stay."""
    modern = batch.magic == 2
    return encode_batch(
        records,
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        attributes=batch.attributes if modern else 0,
        base_timestamp=batch.base_timestamp if modern else batch.max_timestamp,
        max_timestamp=batch.max_timestamp,
        partition_leader_epoch=max(batch.partition_leader_epoch, 0),
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
    )


def _write_renamed(log: Path, place: Path, home: int) -> None:
    names: dict[str, str] = {}
    with LogWriter(place, SMALL_SEGMENT) as writer:
        for batch in kg.open_log(log):
            records = batch.records
            if not batch.is_control:
                records = [_renamed(record, names, home) for record in records]
            writer.append(_encoded(batch, records))


def _renamed(record, names, home):
    """The record, its group renamed to one that lives in partition `home`."""
    try:
        told = kg.to_json(kg.decode(record.key, record.value))
    except InvalidRecord:  # an offset of type 0 with a newer value: old coordinators take it
        return replace(record, key=_renamed(replace(record, value=None), names, home).key)
    key = told["key"]["data"]
    field = "group" if "group" in key else "groupId"
    if key[field] not in names:
        names[key[field]] = next(
            new for number in itertools.count() if kg.partition_for(new := f"{key[field]}.{number}", PARTITIONS) == home
        )
    key[field] = names[key[field]]
    if told["name"] == "GroupMetadata" and told["value"]:
        for member in told["value"]["data"]["members"]:
            member["sessionTimeout"] = HOUR_MS
    new_key, new_value = kg.encode(kg.from_json(told))
    return replace(record, key=new_key, value=new_value)
