"""The learner's progress: solved exercises are kept in a file, shown, and forgotten on request."""

import pytest

from kafkagroups import course


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "progress.json"
    monkeypatch.setenv("KAFKAGROUPS_PROGRESS", str(path))
    return path


def read_progress(capsys):
    capsys.readouterr()
    course.progress()
    return capsys.readouterr().out.splitlines()


def test_a_solved_exercise_is_remembered(file, capsys):
    course.check("next_record", 16)
    assert not file.exists(), "a wrong answer is no progress"
    course.check("next_record", 17)
    course.check("next_record", 17)
    first, lesson_00, *others = read_progress(capsys)
    assert first.startswith("1 of ") and first.endswith(" exercises solved")
    assert lesson_00.startswith("lesson 00") and "■" in lesson_00
    assert not any("■" in line for line in others)


def test_reset_forgets_the_progress(file, capsys):
    course.check("next_record", 17)
    course.reset()
    assert read_progress(capsys)[0].startswith("0 of")
    course.reset()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"solved": 5}', '{"solved": ["nothing", 7]}', '{"solved": [[]]}'])
def test_a_broken_file_counts_as_no_progress(content, file, capsys):
    file.write_text(content)
    assert read_progress(capsys)[0].startswith("0 of")
    course.check("next_record", 17)
    assert read_progress(capsys)[0].startswith("1 of")


def test_without_a_file_the_progress_is_kept_in_memory(tmp_path, monkeypatch, capsys):
    """An empty name keeps it in memory, and a folder that cannot be written does not stop a lesson."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAFKAGROUPS_PROGRESS", "")
    course.reset()  # Other tests keep their progress in memory, too.
    course.check("next_record", 17)
    assert read_progress(capsys)[0].startswith("1 of")
    course.reset()
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("KAFKAGROUPS_PROGRESS", str(tmp_path / "missing" / "progress.json"))
    course.check("next_record", 17)
    assert "✓" in capsys.readouterr().out


def test_by_default_the_file_lies_next_to_the_notebook(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KAFKAGROUPS_PROGRESS")
    course.check("next_record", 17)
    assert [path.name for path in tmp_path.iterdir()] == [".progress.json"]
