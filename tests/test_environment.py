"""Versions are declared in pyproject.toml. The locks and environment.yml agree with it."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text())
GROUPS = PYPROJECT["dependency-groups"]
LOCK_NAMES = ("learn", "develop", "java", "live", "maturin", "re2", "release")
LOCKS = {name: (ROOT / "locks" / f"{name}.txt").read_text() for name in LOCK_NAMES}

NEEDED = [
    *(("learn", line) for line in [*PYPROJECT["project"]["dependencies"], *GROUPS["setup"]]),
    *(("develop", line) for line in GROUPS["develop"]),
    *(("maturin", line) for line in GROUPS["engine"]),
    *(("release", line) for line in GROUPS["release"]),
    *(
        (name if name in LOCKS else "learn", line)
        for name, lines in PYPROJECT["project"]["optional-dependencies"].items()
        for line in lines
        if not line.startswith("kafkagroups[")
    ),
]


def pins(name: str) -> dict[str, set[str]]:
    """Return the versions of each package in a lock. A package has several if a marker chooses."""
    found: dict[str, set[str]] = {}
    for line in LOCKS[name].splitlines():
        if match := re.match(r"([\w.-]+)==([\w.+!]+)", line):
            found.setdefault(canonicalize_name(match[1]), set()).add(match[2])
    return found


def test_environment_yml_is_interpreter_java_and_the_project():
    """conda installs the interpreter and Java. Every other version comes from pyproject.toml by `-e .[course]`."""
    *conda, pip = ENVIRONMENT["dependencies"]
    assert [re.match(r"\w+", line)[0] for line in conda] == ["python", "openjdk", "pip"]
    assert pip == {"pip": ["-e .[course]"]}
    assert ENVIRONMENT["name"] == PYPROJECT["project"]["name"]


def test_environment_yml_has_the_same_pythons():
    """conda's range of Python is pyproject.toml's."""
    python = ENVIRONMENT["dependencies"][0].removeprefix("python")
    assert SpecifierSet(python) == SpecifierSet(PYPROJECT["project"]["requires-python"])


@pytest.mark.parametrize(("lock", "line"), NEEDED)
def test_the_locks_hold_every_dependency(lock, line):
    """Every dependency is pinned, in its range. A pin of the learner's lock is not repeated."""
    requirement = Requirement(line)
    name = canonicalize_name(requirement.name)
    pinned = [pins(each)[name] for each in ("learn", lock, "develop") if name in pins(each)]
    versions = pinned[0]
    assert all(requirement.specifier.contains(version) for version in versions)


def test_the_build_backend_is_the_pinned_one():
    """The project is built by the setuptools of the lock."""
    assert set(PYPROJECT["build-system"]["requires"]) <= set(GROUPS["setup"])


def test_develop_only_adds():
    """No package is in two locks, so the locks cannot disagree."""
    names = [name for lock in LOCKS for name in pins(lock)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("lock", LOCKS)
def test_the_locks_are_pins_with_hashes_and_nothing_else(lock):
    """No address, no option, no path: a lock means the same on every machine and with every mirror."""
    for line in LOCKS[lock].splitlines():
        assert re.fullmatch(
            r"#.*|[\w.-]+==[\w.+!]+( ; [\w.'<>=!() -]+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?", line
        ), line
    assert "/" not in LOCKS[lock]
