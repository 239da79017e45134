"""Changes of a saved snapshot: the content of a state file, and checksums that fit to any content."""

import json
from pathlib import Path

import numpy as np
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
    """Return the JSON of a state file, and its arrays by name."""
    line, _, rest = state_path(folder, partition).read_bytes().partition(b"\n")
    content = json.loads(line)
    arrays = {}
    for name, header in content["arrays"].items():
        array = np.frombuffer(rest, header["dtype"], int(np.prod(header["shape"]))).reshape(header["shape"]).copy()
        arrays[name] = array
        rest = rest[array.nbytes :]
    return content, arrays


def write_state(folder, partition, content, arrays):
    """Write a state file with any arrays, and make the snapshot accept its size and checksum."""
    headers = {name: {"dtype": array.dtype.str, "shape": list(array.shape)} for name, array in arrays.items()}
    line = json.dumps(content | {"arrays": headers}).encode()
    write_bytes(folder, partition, b"\n".join([line, b"".join(array.tobytes() for array in arrays.values())]))


def write_bytes(folder, partition, data, **changes):
    """Replace the bytes of a state file, and make the snapshot accept their size and checksum.

    `changes` are more changes of the file's entry in snapshot.json.
    """
    Path(state_path(folder, partition)).write_bytes(data)
    manifest = read_manifest(folder)
    manifest["partitions"][json.dumps(partition)] |= {"size": len(data), "checksum": crc32c(data), **changes}
    write_manifest(folder, manifest)
