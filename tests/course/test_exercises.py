"""The checks themselves: a starter is not attempted, a solution passes, a plausible mistake is told by its slip."""

import pytest

from kafkagroups import course
from kafkagroups.course.exercises import EXERCISES


def says(capsys, name, attempt):
    course.check(name, attempt)
    out = capsys.readouterr().out
    assert out.count("\n") == 1, "one line, always"
    return out


@pytest.fixture(scope="module")
def solved():
    """All solutions, run one behind the other as in a solved notebook."""
    namespace = {}
    exec("import kafkagroups as kg\nfrom crc32c import crc32c\n", namespace)
    for exercise in EXERCISES.values():
        exec(exercise.solution, namespace)
    return namespace


@pytest.mark.parametrize("name", EXERCISES)
def test_a_starter_is_not_attempted(name, capsys):
    starter = (lambda *arguments: ...) if callable(EXERCISES[name].correct) else ...
    assert says(capsys, name, starter).startswith(f"· {name}: not attempted")


@pytest.mark.parametrize("name", EXERCISES)
def test_a_solution_passes(name, capsys, solved):
    assert says(capsys, name, solved[name]).startswith(f"✓ {name}: right")


@pytest.mark.parametrize(
    ("name", "slip"), [(name, slip) for name, exercise in EXERCISES.items() for slip in exercise.known_mistakes]
)
def test_a_plausible_mistake_is_told(name, slip, capsys):
    """The message names the input and what came, and the sentence of that slip, not of another."""
    wrong = EXERCISES[name].known_mistakes[slip]
    out = says(capsys, name, wrong)
    assert out.startswith(f"✗ {name}: ") and slip in out
    assert f"not {wrong!r}" in out or "it gives" in out


@pytest.mark.parametrize("name", EXERCISES)
def test_every_exercise_has_hints_and_at_least_two_slips_or_is_a_warm_up(name, capsys):
    exercise = EXERCISES[name]
    assert exercise.hints and (len(exercise.known_mistakes) >= 2 or name == "next_record")
    course.hint(name)
    course.hint(name, 99)
    course.solution(name)
    out = capsys.readouterr().out
    assert "hint 1 of" in out and exercise.solution in out


def test_code_that_fails_is_told_and_not_raised(capsys):
    assert "your code raised ZeroDivisionError" in says(capsys, "partition_of", lambda group, partitions: 1 // 0)
    assert "your code raised TypeError" in says(capsys, "partition_of", lambda group: 1)
    for odd in ("50", 50.0, [50]):
        assert "a whole number is expected" in says(capsys, "on_paper", odd)
    assert "your code raised SystemExit" in says(capsys, "partition_of", lambda *_: exit())

    class Odd:
        def __repr__(self):
            raise ValueError("no")

    assert says(capsys, "on_paper", Odd()).startswith("! on_paper")
    assert says(capsys, "partition_of", lambda *_: Odd()).startswith("! partition_of")
    assert "None is a tombstone" in says(capsys, "decode_commit", lambda key, value: value[0] and None)


def test_the_lesson_goes_on_with_what_is_right(capsys, solved):
    """`provided` gives the learner's function back if it is right, the package's otherwise."""
    assert course.ensure_correct("read_string", solved["read_string"]) is solved["read_string"]
    assert course.ensure_correct("read_string", lambda *_: None)(b"\x00\x01a", 0) == ("a", 3)
    out = capsys.readouterr().out.splitlines()
    assert "your read_string" in out[0] and "not ready" in out[1]


def test_a_dictionary_has_no_order(capsys):
    """Two loops may meet the same keys in another order."""
    cases = EXERCISES["replay"].correct
    assert says(capsys, "replay", lambda lines: dict(reversed(cases(lines).items()))).startswith("✓")


def test_a_check_of_no_function_says_so(capsys):
    assert says(capsys, "partition_of", "9").startswith("✗ partition_of: a function was expected")
    assert "there is no exercise" in says(capsys, "partition", ...)
