"""tools/workshop.py: the copy of the lessons for participants, and the summary of their finished notebooks."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import case

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
# Lines of `course.check` for a wrong value and for a function that raises an error.
WRONG = "✗ processed_twice: not 7.\n"


@pytest.fixture
def summarize(tmp_path):
    def run(folder: Path = tmp_path) -> tuple[int, str, str]:
        command = [sys.executable, "tools/workshop.py", "summary", str(folder)]
        env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, encoding="utf-8")
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout, done.stderr

    return run


def read_lesson(name: str, *, solved: bool = False) -> dict:
    path = ROOT / "notebooks" / ("solutions" if solved else "") / f"{name}.ipynb"
    return json.loads(path.read_text(encoding="utf-8"))


def find_check(notebook: dict, exercise: str) -> dict:
    """Return the cell of a notebook that checks an exercise."""
    [cell] = [cell for cell in notebook["cells"] if f'course.check("{exercise}"' in "".join(cell["source"])]
    return cell


def save(path: Path, notebook: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook), encoding="utf-8")


def make_started_lesson() -> dict:
    """Return lesson 00 with a passed, a failed and a not attempted exercise, in this order."""
    notebook = read_lesson("00_start_here")
    passed = find_check(read_lesson("00_start_here", solved=True), "next_record")
    find_check(notebook, "next_record").update(passed)
    find_check(notebook, "processed_twice")["outputs"][0]["text"] = [WRONG]
    return notebook


def row_of(output: str, start: str) -> list[str]:
    [row] = [line for line in output.splitlines() if line.startswith(start)]
    return row.split()


def test_passed_failed_and_not_attempted(tmp_path, summarize):
    """Each participant has a row of marks. Each exercise has a row with the numbers of participants."""
    save(tmp_path / "anna" / "00_start_here.ipynb", make_started_lesson())
    save(tmp_path / "ben" / "deep" / "lesson.ipynb", read_lesson("00_start_here", solved=True))
    status, output, errors = summarize()
    assert (status, errors) == (0, "")
    assert row_of(output, "anna")[:3] == ["anna", "✓✗·", "···"]
    assert row_of(output, "anna")[-3:-1] == ["1", "of"]
    assert row_of(output, "ben")[:3] == ["ben", "✓✓✓", "···"]
    assert row_of(output, "00      next_record")[2:] == ["2", "0", "0"]
    assert row_of(output, "00      processed_twice")[2:] == ["1", "1", "0"]
    assert row_of(output, "00      home_of_promo")[2:] == ["1", "0", "1"]
    assert "decode_commit" not in output  # No notebook contains lesson 01.


def test_all_solved_lessons_pass(summarize):
    """In the solved lessons of the project, every exercise is passed."""
    _, output, _ = summarize(ROOT / "notebooks" / "solutions")
    assert re.search(r" (\d+) of \1$", output, re.M)
    assert "✗" not in output.partition("participant")[2]


def test_only_outputs_of_check_cells_count(tmp_path, summarize):
    """A cell that prints the line of a check, or has the check in a comment, solves nothing."""
    notebook = read_lesson("00_start_here")
    line = {"output_type": "stream", "name": "stdout", "text": "✓ next_record: right\n"}
    for source in ('print("✓ next_record: right")', '# course.check("next_record", next_record)'):
        notebook["cells"].append({"cell_type": "code", "source": source, "outputs": [line]})
    save(tmp_path / "anna" / "00.ipynb", notebook)
    _, output, _ = summarize()
    assert row_of(output, "anna")[1] == "···"


def test_a_broken_file_gives_one_line(tmp_path, summarize):
    """The line names the file and the problem. The other files of the participant are still read."""
    save(tmp_path / "anna" / "00_start_here.ipynb", make_started_lesson())
    folder = tmp_path / "anna"
    (folder / "big.ipynb").write_bytes(b" " * 20_000_001)
    (folder / "cut.ipynb").write_text('{"cells": [')
    (folder / "deep.ipynb").write_text("[" * 200_000)
    (folder / "latin.ipynb").write_bytes(b'{"cells": ["\xff"]}')
    (folder / "list.ipynb").write_text("[1, 2]")
    status, output, errors = summarize()
    assert status == 1
    assert row_of(output, "anna")[1] == "✓✗·"
    expected = ("big.ipynb: not read, it has more than 20 MB", "cut.ipynb: not read, it is not JSON")
    expected += ("deep.ipynb: not read, it is nested too deeply", "latin.ipynb: not read, it is not JSON")
    expected += ("list.ipynb: not read, it is JSON, but not a notebook",)
    lines = errors.splitlines()
    assert len(lines) == len(expected)
    for line, words in zip(lines, expected, strict=True):
        assert words in line


def test_hostile_notebooks_are_only_read(tmp_path, summarize):
    """Code is not run, fields of other types are ignored, links are not followed, and names cannot move the cursor."""
    witness = tmp_path / "witness"
    run = f'open({str(witness)!r}, "w")\ncourse.check("next_record", 17)'
    cells = [
        None,
        7,
        [],
        {"cell_type": []},
        {"cell_type": "code", "source": run, "outputs": {"text": "✓ next_record:"}},
    ]
    cells.append({"cell_type": "code", "source": [1, run], "outputs": [None, {"text": 5}, {"text": [None, "\x1b[2J"]}]})
    cells.append({"cell_type": "code", "source": 'course.check("\\x1b", 1)', "outputs": []})
    save(tmp_path / "handed in" / "eve\x1b[2J" / "00.ipynb", {"cells": cells})
    (tmp_path / "handed in" / "link").symlink_to(ROOT / "notebooks" / "solutions")
    status, output, errors = summarize(tmp_path / "handed in")
    assert (status, errors) == (0, "")
    assert not witness.exists()
    assert "\x1b" not in output
    assert row_of(output, "eve?[2J")[1] == "···"
    assert "link" not in output


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    """A clone with local changes, in which `make workshop` wrote build/workshop."""
    clone = tmp_path_factory.mktemp("workshop") / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    (clone / "notebooks" / ".progress.json").write_text('{"solved": ["next_record"]}')
    shutil.copy(clone / "notebooks" / "solutions" / "01_records.ipynb", clone / "notebooks")
    folder = clone / "build" / "workshop"
    folder.mkdir(parents=True)
    (folder / "old").write_text("of the workshop before")
    # The environment of this run stands for the one that `make workshop` would install in the clone.
    shutil.copy(ROOT / "tools" / "workshop.py", clone / "tools")
    done = subprocess.run([sys.executable, "tools/workshop.py"], cwd=clone, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "build/workshop: 15 lessons" in done.stdout
    return folder


def run_git(workshop: Path, *arguments: str) -> bytes:
    """Run git in the clone, so that a new commit in the project changes nothing."""
    return subprocess.run(["git", *arguments], cwd=workshop.parents[1], capture_output=True, check=True).stdout


def test_the_copy_is_clean_and_complete(workshop):
    """All files are those of the last commit. There is no progress, no solution and nothing of an older copy.

    The notebooks have their own test, because the copy has no outputs.
    """
    names = {path.relative_to(workshop).as_posix() for path in workshop.rglob("*") if path.is_file()}
    committed = run_git(workshop, "ls-tree", "-r", "--name-only", "HEAD", "data", "notebooks").decode().split("\n")
    left_out = ("notebooks/solutions/", "notebooks/source/")
    wanted = {name for name in committed if name and not name.startswith(left_out)}
    assert len(wanted) > 30
    assert {name for name in names if name.startswith(("data/", "notebooks/"))} == wanted
    for name in wanted:
        if not name.endswith(".ipynb"):
            with case(name):
                assert (workshop / name).read_bytes() == run_git(workshop, "show", f"HEAD:{name}")
    assert not names & {"old", "notebooks/.progress.json"}


def test_the_notebooks_have_no_saved_outputs(workshop):
    """A number in the brackets proves that a participant ran the cell. Everything else is as in the last commit."""
    import nbformat

    removed = 0
    for path in sorted((workshop / "notebooks").glob("*.ipynb")):
        with case(path.name):
            copy = json.loads(path.read_text(encoding="utf-8"))
            committed = json.loads(run_git(workshop, "show", f"HEAD:notebooks/{path.name}"))
            for cell in committed["cells"]:
                if cell["cell_type"] == "code":
                    removed += bool(cell["outputs"]) and bool(cell["execution_count"])
                    cell["outputs"] = []
                    cell["execution_count"] = None
            assert copy == committed
            nbformat.validate(nbformat.from_dict(copy))
    assert removed > 100


def test_the_lessons_find_their_pictures_pages_and_data(workshop):
    """Each picture and page that a lesson links is in the copy, except solutions. The first lesson's data is found from
    the notebooks' folder.
    """
    count = 0
    for path in (workshop / "notebooks").glob("*.ipynb"):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            # In code, brackets and parentheses can stand next to each other without being a link.
            text = "".join(cell["source"]) if cell["cell_type"] == "markdown" else ""
            links = re.findall(r"\]\((?!http|#|solutions/)([^)#]+)", text)
            assert [link for link in links if not (path.parent / link).exists()] == [], path.name
            count += len(links)
    assert count > 100
    code = "from kafkagroups import course; print(course.find_data('harbour/1.0.1'))"
    env = {**os.environ, "PYTHONPATH": str(workshop)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=workshop / "notebooks", env=env, capture_output=True, text=True
    )
    assert done.stdout == "../data/harbour/1.0.1\n"


def test_make_lab_in_the_copy_does_what_it_does_in_the_project(workshop):
    """The copy has the rules of the set-up and of `lab`, and every file that they need."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(["make", "-n", "lab"], cwd=workshop, env=env, capture_output=True, text=True)
    assert done.stdout.split("\n")[:3] == ["sh tools/setup.sh learn", "sh tools/setup.sh engine", "sh tools/lab.sh "]
    for name in (
        "tools/setup.sh",
        "tools/lab.sh",
        "tools/engine.py",
        "engine/pyproject.toml",
        "locks/engine.txt",
        "locks/maturin.txt",
        "tools/jupyter/jupyter_server_config.py",
        "locks/java.txt",
        "LICENSE",
    ):
        assert (workshop / name).read_bytes() == run_git(workshop, "show", f"HEAD:{name}")
    assert "make lab" in (workshop / "README.md").read_text()
