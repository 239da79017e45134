"""The checks of exercises: starters are "not attempted", solutions pass, known mistakes are explained."""

import time
from copy import deepcopy

import pytest

import kafkagroups as kg
from kafkagroups import course
from kafkagroups.coordinator import offset_for_leader_epoch
from kafkagroups.course import checks
from kafkagroups.course.exercises.catalog import EXERCISES
from kafkagroups.course.exercises.exercise import define
from kafkagroups.course.log_lines import Line
from kafkagroups.records.wire import java_hash


def check(capsys, name, attempt):
    course.check(name, attempt)
    out = capsys.readouterr().out
    assert out.count("\n") == 1, "one line, always"
    return out


@pytest.fixture
def solved():
    return {name: define(name, exercise.solution) for name, exercise in EXERCISES.items()}


@pytest.mark.parametrize("name", EXERCISES)
def test_a_starter_is_not_attempted_and_a_solution_passes(name, capsys, solved):
    starter = (lambda *arguments: ...) if callable(EXERCISES[name].correct) else ...
    assert check(capsys, name, starter).startswith(f"· {name}: not attempted")
    assert check(capsys, name, solved[name]).startswith(f"✓ {name}: right")


@pytest.mark.parametrize("name", [name for name, exercise in EXERCISES.items() if callable(exercise.correct)])
def test_a_solution_follows_the_package(name, solved):
    """The solution that a learner reads gives what the package's function gives, in every case."""
    for arguments in EXERCISES[name].cases:
        assert outcome(solved[name], arguments) == outcome(EXERCISES[name].correct, arguments)


def test_an_answer_that_the_package_computes_is_the_packages():
    """The pages of the exercises have the answers as values."""
    assert EXERCISES["home_of_promo"].correct == kg.partition_for("promo")
    assert EXERCISES["two_partitions"].correct == (kg.partition_for("reports"), kg.partition_for("barista"))
    epochs = ((0, 0), (2, 70), (5, 90))
    commits = ((85, 2), (95, 2), (75, 1))
    ends = [offset_for_leader_epoch(epochs, log_end=120, epoch=epoch)[1] for _, epoch in commits]
    continued = tuple(min(offset, end) for (offset, _), end in zip(commits, ends, strict=True))
    assert EXERCISES["three_restarts"].correct == continued
    offsets = ((10, 5, None), (11, 9, 4), (12, 7, 8), (13, 6, None))
    lines = [Line(at, "offset", "a", "orders-0", value, producer) for at, value, producer in offsets]
    markers = [Line(14, "commit", producer=8), Line(15, "abort", producer=4)]
    replayed = EXERCISES["replay_transactions"].correct([*lines, *markers])
    assert EXERCISES["after_two_markers"].correct == replayed["a", "orders-0"]


def outcome(function, arguments):
    """Return a function's result, or that it refused the arguments."""
    try:
        return function(*deepcopy(arguments))
    except (kg.KafkagroupsError, ValueError, IndexError, ArithmeticError):
        return "refused"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [(name, sentence) for name, exercise in EXERCISES.items() for sentence in exercise.known_mistakes],
)
def test_a_known_mistake_is_explained(name, sentence, capsys):
    """The message contains the wrong result and the sentence of this mistake, not of another."""
    wrong = EXERCISES[name].known_mistakes[sentence]
    out = check(capsys, name, wrong)
    assert out.startswith(f"✗ {name}: ") and sentence in out
    assert f"not {wrong!r}" in out or "it gives" in out


@pytest.mark.parametrize("name", EXERCISES)
def test_every_exercise_has_hints_and_at_least_two_known_mistakes(name, capsys):
    exercise = EXERCISES[name]
    assert exercise.hints and (len(exercise.known_mistakes) >= 2 or name == "next_record")
    course.hint(name)
    course.hint(name, 99)
    course.solution(name)
    out = capsys.readouterr().out
    assert "hint 1 of" in out and exercise.solution in out


def test_a_loop_without_end_is_stopped(capsys, monkeypatch):
    """An `except Exception` in the learner's code does not catch the stop."""
    monkeypatch.setattr(checks, "_SECONDS_FOR_ALL_CASES", 0.2)

    def loop(_text):
        while True:
            try:
                time.sleep(1)
            except Exception:
                continue

    assert "your code did not end" in check(capsys, "hash_of", loop)
    assert check(capsys, "hash_of", java_hash).startswith("✓")


def test_an_error_of_the_learners_code_is_printed_and_not_raised(capsys):
    assert "your code raised ZeroDivisionError" in check(capsys, "hash_of", lambda text: 1 // 0)
    assert "your code raised TypeError" in check(capsys, "hash_of", lambda: 1)
    for odd in ("17", 17.0, [17]):
        assert "a whole number is expected" in check(capsys, "next_record", odd)
    assert "your code raised SystemExit" in check(capsys, "hash_of", lambda *_: exit())

    class Odd:
        def __repr__(self):
            raise ValueError("no")

    assert check(capsys, "next_record", Odd()).startswith("! next_record")
    assert check(capsys, "hash_of", lambda *_: Odd()).startswith("! hash_of")
    assert "None is a tombstone" in check(capsys, "decode_commit", lambda key, value: value[0] and None)


def test_the_order_of_a_dictionary_does_not_count(capsys):
    """Two correct loops may add the keys in different orders."""
    replay = EXERCISES["replay"].correct
    assert check(capsys, "replay", lambda lines: dict(reversed(replay(lines).items()))).startswith("✓")


def test_a_value_where_a_function_is_expected_is_refused(capsys):
    assert check(capsys, "hash_of", "9").startswith("✗ hash_of: a function was expected")
    assert "there is no exercise" in check(capsys, "partition", ...)
