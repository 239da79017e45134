"""The form of the quizzes: questions, answers, sections to read again, and one printed page."""

import re

import pytest

from tests.quiz.pages import KIT, LESSONS, NUMBERS, read_answers, read_quiz

MOST_LINES = 40  # So many lines fit on a printed page, with room for the answers.
CHARACTERS_IN_LINE = 95


def test_each_lesson_has_a_quiz_and_its_answers():
    for folder in ("quiz", "answers"):
        assert sorted(path.stem for path in (KIT / folder).glob("*.md")) == NUMBERS


@pytest.mark.parametrize("number", NUMBERS)
def test_each_question_has_an_answer_with_its_number(number):
    """A quiz has five or six questions. Each answer has a reason, a typical mistake, and a section to read again."""
    questions = read_quiz(number)
    answers = read_answers(number)
    assert list(questions) == list(answers) == list(range(1, len(questions) + 1))
    assert len(questions) in (5, 6)
    for answer, explanation in answers.values():
        for part in ("Why", "Typical mistake", "Read again"):
            assert f"- **{part}:** " in explanation, answer


@pytest.mark.parametrize("number", NUMBERS)
def test_an_option_exists_and_is_explained_if_it_is_the_answer(number):
    """If a question has options, the answer is one of their letters."""
    answers = read_answers(number)
    for question, text in read_quiz(number).items():
        letters = re.findall(r"^- ([A-D]): ", text, re.M)
        if letters:
            assert answers[question][0] in letters
            assert letters == list("ABCD")[: len(letters)]


@pytest.mark.parametrize("number", NUMBERS)
def test_each_named_section_exists_in_the_lesson(number):
    source = next(path for path in LESSONS if path.stem.startswith(number)).read_text(encoding="utf-8")
    headings = re.findall(r"^# ## (.+)$", source, re.M)
    for question, (_, explanation) in read_answers(number).items():
        section = re.search(r'- \*\*Read again:\*\* "(.+)"$', explanation, re.M)[1]
        assert section in headings, question


@pytest.mark.parametrize("number", NUMBERS)
def test_a_quiz_has_a_line_for_the_name_and_fits_on_one_page(number):
    text = (KIT / "quiz" / f"{number}.md").read_text(encoding="utf-8")
    assert re.search(r"^Name: _{20,}$", text, re.M)
    lines = [line for line in text.splitlines() if line.strip("` ")]
    assert sum(1 + len(line) // CHARACTERS_IN_LINE for line in lines) <= MOST_LINES
