"""The wheel in an empty environment: it is small, core commands work, and others name the extra that they need."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LOG = ROOT / "data" / "harbour" / "3.9.2"
PARTITION = LOG / "__consumer_offsets-9"
SMALL_PLAN = ROOT / "tests" / "repair" / "small-plan.json"
MAX_BYTES = 16_000_000

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """Build both distributions of a clean copy, install the wheel alone, and return the command `kafkagroups`."""
    place = tmp_path_factory.mktemp("wheel")
    copy = place / "project"
    ignored = (".git", ".venv", "__pycache__", "build", "target", "*.egg-info", ".*_cache", "notebooks")
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*ignored))
    uv = [sys.executable, "-m", "uv"]
    subprocess.run(
        [*uv, "build", "--quiet", "--no-build-isolation", "--python", sys.executable, "--out-dir", place, copy],
        check=True,
    )
    subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, place / "env"], check=True)
    (wheel,) = place.glob("*.whl")
    assert len(list(place.glob("*.tar.gz"))) == 1
    python = place / "env" / "bin" / "python"
    subprocess.run([*uv, "pip", "install", "--quiet", "--python", python, wheel], check=True)
    return place / "env" / "bin" / "kafkagroups"


def run(command, *arguments):
    done = subprocess.run([command, *map(str, arguments)], capture_output=True, text=True, cwd="/")
    return done.returncode, done.stdout, done.stderr


def test_the_installation_is_small(command):
    """The package and its libraries need less than 16 MB, without compiled bytecode."""
    packages = next((command.parents[1] / "lib").glob("python*/site-packages"))
    files = [file for file in packages.rglob("*") if file.is_file() and file.suffix != ".pyc"]
    assert sum(file.stat().st_size for file in files) < MAX_BYTES
    assert (packages / "kafkagroups" / "py.typed").exists()
    assert not {"numpy", "pandas", "pyarrow"} & {file.name for file in packages.iterdir()}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "arguments",
    [
        ("load", LOG, "--coordinator", "classic", "--json"),
        ("explain", LOG, "--group", "billing", "--coordinator", "classic"),
        ("timeline", LOG, "--group", "billing", "--coordinator", "classic"),
        ("rescue", "plan", LOG, "--coordinator", "classic"),
        ("stats", LOG, "--coordinator", "classic"),
        ("dump", PARTITION, "--json"),
        ("dump", PARTITION, "--format", "dump-log"),
        ("diff", LOG, "--coordinators", "--json"),
        ("decode", "0001000762696c6c696e6700066f726465727300000002"),
        ("partition", "billing"),
        ("--help",),
        ("--version",),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_core_command_answers_as_with_all_extras(command, arguments):
    """The output is that of this environment, which has all extras."""
    wanted = subprocess.run(
        [sys.executable, "-m", "kafkagroups", *map(str, arguments)], capture_output=True, text=True, cwd="/"
    )
    assert run(command, *arguments) == (0, wanted.stdout, wanted.stderr)


def test_compact_writes_the_same_segments(command, tmp_path):
    """A pass of the cleaner needs no extra."""
    assert run(command, "compact", PARTITION, "--out", tmp_path / "out")[0] == 0
    assert list((tmp_path / "out").glob("*.log"))


def test_report_finds_its_template(command, tmp_path):
    """The wheel contains the template and the style of the page."""
    assert run(command, "report", PARTITION, "--out", tmp_path / "page.html", "--kafka", "3.9.2")[0] == 0
    assert "</html>" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("load", LOG, "--to", "parquet:{place}/tables"), "arrow"),
        (("load", LOG, "--engine", "spark"), "spark"),
        (("synth", "--out", "{place}/log", "--records", "10"), "pandas"),
        (("pull", "--bootstrap", "localhost:1", "--out", "{place}/pulled"), "live"),
        (("rescue", "apply", SMALL_PLAN, "--bootstrap", "localhost:1"), "live"),
    ],
    ids=lambda part: part if isinstance(part, str) else part[0],
)
def test_a_command_names_the_extra_that_it_needs(command, arguments, extra, tmp_path):
    """One line says which package is missing and how to install it."""
    status, out, line = run(command, *(str(argument).format(place=tmp_path) for argument in arguments))
    assert (status, out) == (2, "")
    assert len(line.splitlines()) == 1 and line.rstrip().endswith(f"pip install 'kafkagroups[{extra}]'")


def test_arrow_is_enough_for_tables(command, tmp_path):
    """The extra `arrow` brings no numpy, and the tables need none."""
    uv = [sys.executable, "-m", "uv"]
    (wheel,) = command.parents[2].glob("*.whl")
    subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, tmp_path / "env"], check=True)
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([*uv, "pip", "install", "--quiet", "--python", python, f"{wheel}[arrow]"], check=True)
    assert run(python, "-c", "import numpy")[0] == 1
    written = run(python, "-m", "kafkagroups", "load", LOG, "--to", f"parquet:{tmp_path / 'tables'}")
    assert written[0] == 0, written
    assert list((tmp_path / "tables").rglob("*.parquet"))


def test_the_compiled_engine_says_how_to_get_it(command):
    """The native engine is no extra, because it is built from its folder."""
    status, out, line = run(command, "load", LOG, "--engine", "compiled")
    assert (status, out) == (2, "")
    assert len(line.splitlines()) == 1 and "pip install ./engine" in line


def test_the_doctor_says_what_the_course_needs(command):
    """Without the extras, the doctor names the packages as a problem; it has no traceback."""
    status, out, error = run(command, "doctor")
    assert status == 1 and "Traceback" not in error
    assert "packaging is not installed" in out and "kafkagroups[course]" in out
