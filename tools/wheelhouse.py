"""A folder of wheels, from which laptops install the course without a network.

    python tools/wheelhouse.py                         writes build/wheelhouse/ (the same as `make wheelhouse`)
    python tools/wheelhouse.py --java                  also the Java for Spark
    python tools/wheelhouse.py --platform macos-arm64 --python 3.13
    python tools/wheelhouse.py --plan                  prints what it would download, and downloads nothing

Every download must have a hash of `locks/`. Run it again for each other platform and Python: the folder keeps the
wheels of all of them. Most wheels fit every platform, so a second platform needs much less space than the first one.

The native engine is in no lock. If this machine has built it, its wheel is added, for this platform and every Python,
and `engine.txt` in the folder has its hash. For another platform, run this program there, with the same folder.

A package in `WITHOUT_WHEEL` is published only as source. This program builds its wheel once. The lock cannot contain
the hash of that wheel, so `built.txt` in the folder contains it. `wheelhouse.txt` lists the platforms and Pythons.

`WHEELHOUSE=FOLDER make lab` installs from the folder: see tools/setup.sh.
"""

from __future__ import annotations

import argparse
import hashlib
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.markers import Marker
from packaging.utils import canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).resolve().parents[1]
WHEELHOUSE = ROOT / "build" / "wheelhouse"
BUILT_ENGINE = ROOT / ".venv" / "engine"
"""The folder into which tools/setup.sh builds the wheel of the native engine."""
WITHOUT_WHEEL = frozenset({"pyspark"})
PYTHONS = ("3.11", "3.12", "3.13")
OLDEST_GLIBC = 5
NEWEST_GLIBC = 28
"""The glibc 2.28 is that of Debian 10. A wheel for an older glibc also runs with a newer one."""
A_PIN = re.compile(r"([\w.-]+)==([\w.+!]+)(?: ; (.+?))? \\$")
A_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Platform:
    """A kind of machine: the values that markers of a lock compare, and pip's tags for its wheels."""

    sys_platform: str
    machine: str
    tags: tuple[str, ...]


def list_linux_tags(machine: str) -> tuple[str, ...]:
    """Return pip's tags for a Linux with glibc, the newest one first."""
    numbers = range(NEWEST_GLIBC, OLDEST_GLIBC - 1, -1)
    old_names = ("manylinux2014", "manylinux2010", "manylinux1")
    return (*(f"manylinux_2_{number}_{machine}" for number in numbers), *(f"{name}_{machine}" for name in old_names))


PLATFORMS = {
    "linux-x86_64": Platform("linux", "x86_64", list_linux_tags("x86_64")),
    "linux-aarch64": Platform("linux", "aarch64", list_linux_tags("aarch64")),
    # pip adds the tags of older systems itself.
    "macos-arm64": Platform("darwin", "arm64", ("macosx_14_0_arm64",)),
}
"""Macs with Intel processors are missing, because some packages have no wheels for them."""


@dataclass(frozen=True)
class Pin:
    """One package of a lock, with the hashes of all its files."""

    name: str
    version: str
    marker: str | None
    hashes: tuple[str, ...]

    def as_requirement(self) -> str:
        """Return the pin as lines of a requirements file. The marker was decided before, so it is left out."""
        return " \\\n    ".join([f"{self.name}=={self.version}", *self.hashes])


def name_this_platform() -> str:
    """Return the name of this machine's platform, as tools/setup.sh builds it."""
    system = {"Linux": "linux", "Darwin": "macos"}.get(platform.system(), platform.system())
    return f"{system}-{platform.machine()}"


def read_lock(path: Path) -> list[Pin]:
    """Return the pins of a lock."""
    pins: list[Pin] = []
    # Each pin begins in the first column. Its hashes follow in indented lines.
    for block in re.split(r"\n(?=[\w])", path.read_text(encoding="utf-8")):
        found = A_PIN.match(block.partition("\n")[0])
        if found:
            name, version, marker = found.groups()
            pins.append(Pin(name, version, marker, tuple(A_HASH.findall(block))))
    return pins


def list_releases(python: str) -> tuple[str, str]:
    """Return the first and the last release of a Python. A marker can distinguish them: Debian 12 has 3.11.2."""
    return f"{python}.0", f"{python}.99"


def select(pins: list[Pin], target: Platform, release: str) -> list[Pin]:
    """Return the pins that a platform and a release of Python need, by their markers.

    pip would decide the markers for the Python that runs pip.
    """
    names = {"linux": "Linux", "darwin": "Darwin"}
    environment = {
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": target.machine,
        "platform_python_implementation": "CPython",
        "platform_system": names[target.sys_platform],
        "python_full_version": release,
        "python_version": release.rpartition(".")[0],
        "sys_platform": target.sys_platform,
    }
    return [pin for pin in pins if pin.marker is None or Marker(pin.marker).evaluate(environment)]


def select_for_all_releases(pins: list[Pin], target: Platform, python: str) -> dict[str, list[Pin]]:
    """Return the pins for the first release of a Python, and those that the last release needs in addition."""
    first, last = list_releases(python)
    for_first = select(pins, target, first)
    return {first: for_first, last: [pin for pin in select(pins, target, last) if pin not in for_first]}


def list_download_options(target: Platform, release: str) -> list[str]:
    """Return pip's options that name a platform and a Python, with every older name of the platform."""
    options = ["--only-binary", ":all:", "--implementation", "cp", "--python-version", release]
    for tag in target.tags:
        options += ["--platform", tag]
    return options


def run_pip(*arguments: str) -> bool:
    """Run pip and return whether it succeeded."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=False).returncode == 0


def write_requirements(folder: Path, name: str, pins: list[Pin]) -> Path:
    path = folder / name
    path.write_text("".join(f"{pin.as_requirement()}\n" for pin in pins), encoding="utf-8")
    return path


def download(folder: Path, pins: list[Pin], target: Platform, release: str) -> bool:
    """Download the wheels of pins into a folder, and return whether this worked."""
    if not pins:
        return True
    wanted = write_requirements(folder, "wanted.txt", pins)
    options = ["--quiet", "--no-deps", "--require-hashes", "--dest", str(folder), "--requirement", str(wanted)]
    worked = run_pip("download", *options, *list_download_options(target, release))
    wanted.unlink()
    return worked


def build(folder: Path, pins: list[Pin]) -> bool:
    """Build the wheels of packages that are published only as source, and return whether this worked.

    A wheel that is already in the folder is not built again.
    """
    missing = [pin for pin in pins if not list(find_wheels(folder, pin))]
    if missing:
        wanted = write_requirements(folder, "wanted.txt", missing)
        # Without isolation, the pinned setuptools of this environment builds the wheel.
        options = ["--quiet", "--no-deps", "--no-build-isolation", "--require-hashes", "--wheel-dir", str(folder)]
        worked = run_pip("wheel", *options, "--requirement", str(wanted))
        wanted.unlink()
        if not worked:
            return False
    lines = [f"{pin.name}=={pin.version} {hash_of(wheel)}\n" for pin in pins for wheel in find_wheels(folder, pin)]
    (folder / "built.txt").write_text("".join(lines), encoding="utf-8")
    return True


def hash_of(wheel: Path) -> str:
    """Return the hash of a wheel as pip's option."""
    with wheel.open("rb") as file:
        return f"--hash=sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def add_engine(folder: Path, platform_name: str) -> None:
    """Copy the wheel of the native engine that this machine built, and write `engine.txt`, which tools/setup.sh reads.

    The wheels of another version are removed. Those of the same version for other platforms stay.
    """
    built = sorted(BUILT_ENGINE.glob("*.whl"))
    if not built:
        print("without the native engine: this machine has not built it", file=sys.stderr)
        return
    if platform_name == name_this_platform():
        shutil.copy(built[0], folder)
    else:
        print(f"the native engine for {platform_name} must be built there", file=sys.stderr)
    name, version, _, _ = parse_wheel_filename(built[0].name)
    kept = []
    for wheel in find_engines(folder):
        if parse_wheel_filename(wheel.name)[1] == version:
            kept.append(wheel)
        else:
            wheel.unlink()
    hashes = "".join(f" {hash_of(wheel)}" for wheel in kept)
    if hashes:
        (folder / "engine.txt").write_text(f"{name}=={version}{hashes}\n", encoding="utf-8")


def find_engines(folder: Path) -> list[Path]:
    """Return the wheels of the native engine in a folder."""
    return sorted(folder.glob("kafkagroups_engine-*.whl"))


def find_wheels(folder: Path, pin: Pin) -> Iterator[Path]:
    """Yield the wheels of a pin in a folder."""
    for path in sorted(folder.glob("*.whl")):
        name, version, _, _ = parse_wheel_filename(path.name)
        if name == canonicalize_name(pin.name) and str(version) == pin.version:
            yield path


def remove_old_wheels(folder: Path, pins: list[Pin]) -> None:
    """Remove the wheels that no lock names any more."""
    kept = {path for pin in pins for path in find_wheels(folder, pin)}.union(find_engines(folder))
    for path in folder.glob("*.whl"):
        if path not in kept:
            path.unlink()


def note_platform(folder: Path, line: str) -> None:
    """Add a platform and its Python to `wheelhouse.txt`, which tools/setup.sh reads."""
    path = folder / "wheelhouse.txt"
    lines = set(path.read_text(encoding="utf-8").splitlines()) if path.exists() else set()
    path.write_text("".join(f"{each}\n" for each in sorted(lines | {line})), encoding="utf-8")


def print_sizes(folder: Path) -> None:
    """Print the number of wheels, their size, and the five largest ones."""
    sizes = {path.name: path.stat().st_size for path in folder.glob("*.whl")}
    for name in sorted(sizes, key=lambda each: -sizes[each])[:5]:
        print(f"{sizes[name] / 1e6:>7.1f} MB  {name}")
    print(f"{sum(sizes.values()) / 1e6:>7.1f} MB  all {len(sizes)} wheels, for:")
    print((folder / "wheelhouse.txt").read_text(encoding="utf-8"), end="")


def print_plan(pins: list[Pin]) -> None:
    """Print each package that would be downloaded, and the ones that would be built."""
    for pin in pins:
        print(f"{pin.name}=={pin.version}{'  built from source' if pin.name in WITHOUT_WHEEL else ''}")
    print(f"{len(pins)} files. Nothing was downloaded.")


def write_wheelhouse(folder: Path, name: str, python: str, *, java: bool) -> int:
    """Write the wheels for one platform and Python, and return the exit status."""
    target = PLATFORMS[name]
    learn = read_lock(ROOT / "locks" / "learn.txt")
    java_pins = read_lock(ROOT / "locks" / "java.txt")
    needed = select_for_all_releases(learn + java_pins if java else learn, target, python)
    folder.mkdir(parents=True, exist_ok=True)
    remove_old_wheels(folder, learn + java_pins)
    for release, pins in needed.items():
        wheels = [pin for pin in pins if pin.name not in WITHOUT_WHEEL]
        if not download(folder, wheels, target, release):
            print(f"make wheelhouse: pip's lines above name the package that has no wheel for {name}", file=sys.stderr)
            return 1
    sources = [pin for pins in needed.values() for pin in pins if pin.name in WITHOUT_WHEEL]
    if not build(folder, sources):
        print("make wheelhouse: a package could not be built, see pip's lines above", file=sys.stderr)
        return 1
    add_engine(folder, name)
    note_platform(folder, f"{name} {python}")
    print_sizes(folder)
    return 0


def main() -> int:
    this_python = f"{sys.version_info.major}.{sys.version_info.minor}"
    parser = argparse.ArgumentParser(description="Write a folder from which laptops install without a network.")
    parser.add_argument("--platform", choices=PLATFORMS, default=name_this_platform(), help="default: this machine")
    parser.add_argument("--python", choices=PYTHONS, default=this_python, help="default: the Python of .venv")
    parser.add_argument("--java", action="store_true", help="also the Java for Spark, 40 MB")
    parser.add_argument("--plan", action="store_true", help="print the packages, and download nothing")
    parser.add_argument("--out", type=Path, default=WHEELHOUSE, help="the folder, default: build/wheelhouse")
    arguments = parser.parse_args()
    if arguments.platform not in PLATFORMS:
        parser.error(f"{arguments.platform} is not supported, choose one of: {', '.join(PLATFORMS)}")
    if arguments.plan:
        locks = ["learn", "java"] if arguments.java else ["learn"]
        pins = [pin for lock in locks for pin in read_lock(ROOT / "locks" / f"{lock}.txt")]
        needed = select_for_all_releases(pins, PLATFORMS[arguments.platform], arguments.python)
        print_plan([pin for selected in needed.values() for pin in selected])
        return 0
    return write_wheelhouse(arguments.out, arguments.platform, arguments.python, java=arguments.java)


if __name__ == "__main__":
    sys.exit(main())
