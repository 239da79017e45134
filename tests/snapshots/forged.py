"""Snapshots below the command line, and changes of a saved one, with checksums that fit to any content."""

import json

from crc32c import crc32c

from kafkagroups.loading.snapshots import Snapshot as Snapshot, take_snapshot as take_snapshot


def read_manifest(folder):
    return json.loads((folder / "snapshot.json").read_text())


def write_manifest(folder, content):
    """Write snapshot.json with the right checksum."""
    content = content | {"checksum": 0}
    checksum = crc32c(json.dumps(content, separators=(",", ":")).encode())
    (folder / "snapshot.json").write_text(json.dumps(content | {"checksum": checksum}))


def saved_partition(content, partition):
    """Return what snapshot.json says of a partition."""
    (saved,) = [saved for saved in content["partitions"] if saved["partition"] == partition]
    return saved


def segment_path(folder, partition):
    return folder / saved_partition(read_manifest(folder), partition)["file"]


def write_segment(folder, partition, data):
    """Replace the bytes of a segment, and make the snapshot accept their size and checksum."""
    segment_path(folder, partition).write_bytes(data)
    content = read_manifest(folder)
    saved_partition(content, partition).update(size=len(data), checksum=crc32c(data))
    write_manifest(folder, content)
