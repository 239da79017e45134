"""tools/brokers.sh: which versions it fetches, and what it says if it cannot."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.broker.broker import EXTRA_SETTINGS, find_jars, has_jars
from tests.releases.sequences import RELEASES
from tests.scripts import write_program

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
MAVEN = """for word; do
    case $word in -DoutputDirectory=*) touch "${word#*=}/a.jar" ;; esac
done
"""


@pytest.fixture
def make_brokers(tmp_path, monkeypatch):
    """A function that runs `make brokers` with an empty cache, and returns its status, its output and its errors."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sh", "make", "dirname", "mkdir", "rm", "touch"):
        (programs / name).symlink_to(shutil.which(name))

    def run(*arguments: str, maven: str | None = MAVEN) -> tuple[int, str, str]:
        if maven is not None:
            write_program(programs / "mvn", maven)
        env = {"PATH": str(programs), "XDG_CACHE_HOME": str(tmp_path / "cache")}
        command = ["make", "brokers", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    return run


def find_fetched() -> set[str]:
    """Return the names of the folders with the jars of a version."""
    return {path.parent.name for path in find_jars("4.3.1").parent.glob("*/.complete")}


def test_one_version(make_brokers):
    """KAFKA=4.3.1 fetches one broker. The second time, there is nothing to do."""
    status, output, errors = make_brokers("KAFKA=4.3.1")
    assert (status, errors) == (0, "")
    assert output == f"fetching the jars of a Kafka 4.3.1 broker into {find_jars('4.3.1')}\n"
    assert has_jars("4.3.1")
    assert find_fetched() == {"kafka-4.3.1"}
    assert make_brokers("KAFKA=4.3.1") == (0, "", "")


def test_all_versions(make_brokers):
    """Without a version, the tests have every broker and every coordinator that they start."""
    status, output, _ = make_brokers()
    assert status == 0
    assert find_fetched() == {
        f"kafka-{version}" if version in EXTRA_SETTINGS else f"coordinator-{version}" for version in RELEASES
    }
    assert len(output.splitlines()) == len(RELEASES)


def test_a_version_without_jars(make_brokers):
    """The line names the versions that there are."""
    status, output, errors = make_brokers("KAFKA=2.8.0")
    assert (status, output) == (2, "")
    assert errors.startswith("KAFKA=2.8.0: there are no jars of this version. The versions are: 3.9.2 4.3.1 4.0.1")
    assert find_fetched() == set()


@pytest.mark.parametrize("arguments", [[], ["KAFKA=4.3.1"]])
def test_without_maven(make_brokers, arguments):
    """One line says what is missing. The status is 0, because `make test-all` works without brokers."""
    status, output, errors = make_brokers(*arguments, maven=None)
    assert (status, errors) == (0, "")
    [line] = output.splitlines()
    assert line.startswith("Maven is missing, so the jars of a Kafka ")
    assert "apt install maven" in line
