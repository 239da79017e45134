"""Changes of a saved snapshot: the content of a state file, and checksums that fit to any content."""

import json
from pathlib import Path

from crc32c import crc32c


def state_path(folder, partition):
    return folder / read_manifest(folder)["partitions"][json.dumps(partition)]["file"]


def read_manifest(folder):
    return json.loads((folder / "snapshot.json").read_text())


def write_manifest(folder, content):
    """Write snapshot.json with the right checksum."""
    content = {name: value for name, value in content.items() if name != "checksum"}
    line = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    content["checksum"] = crc32c(line.encode("utf-8", "surrogatepass"))
    (folder / "snapshot.json").write_text(json.dumps(content))


def read_state(folder, partition):
    """Return the content of a state file."""
    return json.loads(state_path(folder, partition).read_bytes())


def write_state(folder, partition, content):
    """Write a state file with any content, and make the snapshot accept its size and checksum."""
    write_bytes(folder, partition, json.dumps(content).encode())


def write_bytes(folder, partition, data, **changes):
    """Replace the bytes of a state file, and make the snapshot accept their size and checksum.

    `changes` are more changes of the file's entry in snapshot.json.
    """
    Path(state_path(folder, partition)).write_bytes(data)
    manifest = read_manifest(folder)
    manifest["partitions"][json.dumps(partition)] |= {"size": len(data), "checksum": crc32c(data), **changes}
    write_manifest(folder, manifest)
