"""Predictions: the answer is folded away until the reader predicts it, and frequent wrong ones are explained.

A saved notebook shows outputs to readers who have not thought about the question yet, so `reveal` and `fold` write the
answer into a `<details>` element, which opens without a kernel.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from IPython.display import display
from IPython.utils.capture import capture_output

from kafkagroups.course.exercises.catalog import MISCONCEPTIONS

_SUMMARY = "Predict first. Then open this line to see the answer."
_TEXT_WITHOUT_PREDICTION = "The answer is folded away. Write your prediction into the cell above, and run both cells."

_is_inside_fold = ContextVar("is_inside_fold", default=False)


def reveal(name: str, prediction: Any, answer: Any) -> None:
    """Show the answer to a prediction (`...` for none), and what is wrong with a frequent wrong one (`MISCONCEPTIONS`).

    Inside `fold`, it is only printed: the reader opens one line.
    """
    if prediction is not ...:
        print(_compare(name, prediction, answer))
    elif _is_inside_fold.get():
        print(f"The answer is {answer!r}.")
    else:
        _show_folded(f"<p>The answer is <code>{_escape_text(repr(answer))}</code>.</p>")


@contextmanager
def fold(name: str, prediction: Any, answer: Any = None) -> Iterator[None]:
    """Fold away everything that the `with` block prints and displays, until there is a prediction.

    Use it where the output of a program contains the answer. If the block raises an error, its output is shown.
    """
    if prediction is not ...:
        yield
        if answer is not None:
            print(_compare(name, prediction, answer))
        return
    outside = _is_inside_fold.set(True)
    try:
        with capture_output() as captured:
            yield
    except BaseException:
        captured.show()  # type: ignore[no-untyped-call]
        raise
    finally:
        _is_inside_fold.reset(outside)
    parts = [f"<pre>{_escape_text(captured.stdout)}</pre>"] if captured.stdout else []
    parts += [_read_html(output.data) for output in captured.outputs]
    _show_folded("".join(parts))


def _compare(name: str, prediction: Any, answer: Any) -> str:
    if prediction == answer:
        return f"✓ The answer is {answer!r}, as you predicted."
    line = f"You predicted {prediction!r}. The answer is {answer!r}."
    sentences = [sentence for wrong, sentence in MISCONCEPTIONS.get(name, {}).items() if wrong == prediction]
    return "\n".join([line, *sentences])


def _show_folded(content: str) -> None:
    folded = f"<details><summary>{_SUMMARY}</summary>{content}</details>"
    display({"text/html": folded, "text/plain": _TEXT_WITHOUT_PREDICTION}, raw=True)  # type: ignore[no-untyped-call]


def _read_html(data: Mapping[str, Any]) -> str:
    if "text/html" in data:
        return str(data["text/html"])
    return f"<pre>{_escape_text(str(data.get('text/plain', '')))}</pre>"


def _escape_text(text: str) -> str:
    return html.escape(text, quote=False)
