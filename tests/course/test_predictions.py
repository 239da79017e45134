"""An answer is folded away until the learner predicts it."""

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from kafkagroups import course


@pytest.fixture(autouse=True)
def shell():
    """Displays are published as in a notebook's kernel."""
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


def html_of(captured):
    (output,) = captured.outputs
    return output.data["text/html"], output.data["text/plain"]


def test_without_a_prediction_the_answer_is_folded_away():
    """The answer stands in a closed <details> element, and not in the text form."""
    with capture_output() as captured:
        course.reveal("error", ..., "<NONE>")
    html, text = html_of(captured)
    assert captured.stdout == ""
    assert html.startswith("<details><summary>") and "&lt;NONE&gt;" in html
    assert "NONE" not in text


def test_a_prediction_shows_the_answer():
    """The line says whether the prediction was right."""
    with capture_output() as captured:
        course.reveal("number", 5, 5)
        course.reveal("number", 4, 5)
    assert captured.stdout == "✓ The answer is 5, as you predicted.\nYou predicted 4. The answer is 5.\n"


def test_a_block_is_folded_away_as_a_whole():
    """What the block prints and displays is inside the element."""
    with capture_output() as captured, course.fold("error", ...):
        print("NONE & more")
    html, text = html_of(captured)
    assert captured.stdout == ""
    assert "<pre>NONE &amp; more\n</pre>" in html and "NONE" not in text


def test_an_answer_inside_a_folded_block_has_no_fold_of_its_own():
    """The reader opens one line, not two. After the block, an answer is folded away again."""
    with capture_output() as inside, course.fold("error", ...):
        course.reveal("error", ..., "NONE")
    with capture_output() as afterwards:
        course.reveal("error", ..., "NONE")

    assert inside.outputs[0].data["text/html"].count("<details>") == 1
    assert "The answer is 'NONE'." in inside.outputs[0].data["text/html"]
    assert afterwards.outputs[0].data["text/html"].count("<details>") == 1


def test_with_a_prediction_a_block_is_printed_as_usual():
    """The output is not folded. The last line compares the prediction with the answer."""
    with capture_output() as captured, course.fold("error", "NONE", "NONE"):
        print("the broker answered NONE")
    assert captured.stdout == "the broker answered NONE\n✓ The answer is 'NONE', as you predicted.\n"


def test_a_block_that_fails_shows_its_output():
    """An error in the block is raised, and nothing that was printed before is lost."""
    with capture_output() as captured, pytest.raises(ZeroDivisionError), course.fold("error", ...):
        print("before")
        1 / 0  # noqa: B018
    assert captured.stdout == "before\n"
