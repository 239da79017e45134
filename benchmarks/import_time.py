"""The time of `import kafkagroups`, compared with a Python that does nothing (goal: at most 200 ms more)."""

import statistics
import subprocess
import sys
import time


def measure(statement: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - start


def main() -> None:
    runs = [(measure("pass"), measure("import kafkagroups")) for _ in range(15)]
    nothing, package = (statistics.median(times) for times in zip(*runs, strict=True))
    print(f"python -c pass                 {nothing * 1000:6.0f} ms")
    print(f"python -c 'import kafkagroups' {package * 1000:6.0f} ms")
    print(f"ratio {package / nothing:.1f}, the import itself {(package - nothing) * 1000:.0f} ms")


if __name__ == "__main__":
    main()
