"""The time to load logs that are as slow as possible, compared with an ordinary log of the same size.

    python -m benchmarks.hostile [--megabytes 5] [--engine auto] [--only TEXT]

No log should take more than 5 times as long as an ordinary log. A log that becomes larger when it is decompressed is
compared with an ordinary log of the decompressed size.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import kafkagroups as kg
from benchmarks import hostile_logs as logs

LIMIT = 5


def write(folder: Path, content: bytes | dict[int, bytes]) -> None:
    partitions = content if isinstance(content, dict) else {0: content}
    for number, data in partitions.items():
        partition = folder / f"__consumer_offsets-{number}"
        partition.mkdir()
        (partition / f"{0:020}.log").write_bytes(data)


def measure(content: bytes | dict[int, bytes], kafka: str, engine: str) -> float:
    """Return the CPU seconds of a load, together with the JSON of its answer."""
    from kafkagroups.cli.load import to_json

    coordinator = "classic" if int(kafka[0]) < 4 else "new"
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), content)
        start = time.process_time()
        groups = kg.load(folder, coordinator, kafka, engine=engine, threads=1)
        json.dumps(to_json(groups))
        assert groups.problems is not None
        return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=5)
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    size = int(args.megabytes * 1e6)
    measure(logs.ordinary(10_000), "4.3.1", args.engine)  # The kernels are compiled or loaded.
    ordinary = min(measure(logs.ordinary(size), "4.3.1", args.engine) for _ in range(3))
    print(f"{'ordinary log':40} {size:>10,} bytes {ordinary:8.2f} s")
    for name, build in logs.KINDS.items():
        if args.only not in name:
            continue
        log = build(size)
        seconds = measure(log.content, log.kafka, args.engine)
        ratio = seconds / (ordinary * max(log.size, log.decompressed_size) / size)
        print(
            f"{name:40} {log.size:>10,} bytes {seconds:8.2f} s {ratio:6.1f} {'too slow' * (ratio > LIMIT)}", flush=True
        )


if __name__ == "__main__":
    main()
