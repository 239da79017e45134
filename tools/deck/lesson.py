"""How the cells of a solved lesson become slides.

The rules:

- A heading begins a slide and names it. Its sentences, lists, tables and outputs follow, on as many slides as needed.
  What follows an answer, or leads to a question, is on the same slide if it has room. In the browser, slides.js gives
  each slide the largest text that fits.
- Of a long paragraph, a slide has as many sentences as it has room for. The notes have the whole paragraph, the folded
  boxes, and longer code.
- An exercise is a task: its whole text and the learner's starter. The solution and the check are left out.
- A prediction is a question. The next slide has its answer.
- A figure has a slide alone.
- The questions of "Check yourself" are a list. Their answers are in the notes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from html import escape, unescape

from nbformat import NotebookNode

from deck.parts import Part, asks_for_prediction, has_exercise, leads_to_figure, list_parts
from deck.piece import ROOM, Piece, render, render_line
from deck.pieces import fit_pieces, is_wide, make_listing, pack, read_pieces
from deck.tables import read_comparison
from kafkagroups.course.figures.figure import Figure, read_fingerprint
from kafkagroups.course.figures.marks import WIDTH

PICTURE = re.compile(r"!\[([^\]]*)\]\((?:\.\./)?(pictures/\d\d\.svg)\)")
LISTING = re.compile(r"<pre>(.*?)</pre>", re.DOTALL)
FOLD = re.compile(r"<details><summary>.*?</summary>|</details>", re.DOTALL)
EMPHASIS = ("<p><em>Predict</em>", '<p class="ask"><em>Predict</em>')
MOST_TEXTS_OF_FIGURE = 2
"""So many paragraphs before a figure are in the notes of its slide, and not on a slide of their own."""
FIGURE_WIDTH = 860
FLAT_FIGURE_WIDTH = 1184
FIGURE_HEIGHT = 548
"""The height of the headlines and the picture."""
FIGURE_LINE_HEIGHT = 40
CAPTION_HEIGHT = 48
"""The caption of a flat figure stands below the picture. Otherwise it stands next to it."""
PICTURE_HEIGHT = 400
LINE_HEIGHT = 60
CHECK_YOURSELF = "Check yourself"
MOST_CODE_LINES = 3
"""Longer code is in the notes, because the output is what the audience needs."""


class UnknownFigure(Exception):
    """A lesson has a figure that the catalog does not have."""


@dataclass
class Slide:
    """One slide.

    Attributes
    ----------
    kind
        "title", "plain", "task", "question", "answer" or "figure".
    title
        The heading, in Markdown.
    body
        The HTML below the heading.
    notes
        The HTML of the notes.
    height
        The estimated height of the body.
    """

    kind: str
    title: str
    body: str
    notes: str = ""
    height: float = 0

    @property
    def title_html(self) -> str:
        return render_line(self.title)


@dataclass
class Deck:
    """The slides of one lesson. Each section is a list of slides."""

    number: str
    title: str
    question: str
    sections: list[list[Slide]] = field(default_factory=list)

    @property
    def question_html(self) -> str:
        return render_line(self.question)

    @property
    def slides(self) -> list[Slide]:
        return [slide for section in self.sections for slide in section]


def make_deck(solved: NotebookNode, starters: dict[str, str], figures: dict[str, Figure]) -> Deck:
    """Return the deck of a lesson.

    Parameters
    ----------
    solved
        The solved lesson with its saved outputs.
    starters
        The code of each exercise for a learner, by the id of its cell.
    figures
        The figures of the catalog by fingerprint.
    """
    head, *cells = solved.cells
    deck, aims = _read_head(head.source)
    parts = [part for cell in cells for part in list_parts(cell)]
    writer = _Writer(deck, starters, figures)
    writer.flow += ["**After this lesson you can**", aims]
    for number, part in enumerate(parts):
        writer.add(part, parts[number + 1 :])
    writer.flush()
    return deck


def _read_head(text: str) -> tuple[Deck, str]:
    """Return a deck with the title slide, and the list of what the audience will be able to do."""
    title = re.search(r"^# (.+)$", text, re.MULTILINE)[1]
    question = re.search(r"^\*\*(.+)\*\*$", text, re.MULTILINE)[1]
    aims, minutes, java = [
        cell.strip() for cell in text.split("|---|---|---|\n")[1].split("\n")[0].strip("| ").split("|")
    ]
    picture = PICTURE.search(text)
    deck = Deck(title[:2], title, question)
    image = f'<img class="picture" src="{picture[2]}" alt="{escape(picture[1])}">'
    body = f'<p class="lead">{render_line(question)}</p>{image}'
    notes = render(f"Estimated minutes: {minutes}. Needs Java: {java}.")
    deck.sections.append([Slide("title", title, body, notes)])
    return deck, "\n".join(f"- {aim.strip()}" for aim in aims.split(";"))


class _Writer:
    """Adds the parts of a lesson to its deck, one after another."""

    def __init__(self, deck: Deck, starters: dict[str, str], figures: dict[str, Figure]) -> None:
        self.deck = deck
        self.starters = starters
        self.figures = figures
        self.title = deck.title
        self.kind = "plain"
        self.flow: list[str | Piece] = []
        self.figure_notes = ""
        self.deck.sections.append([])

    def add(self, part: Part, following: list[Part]) -> None:
        """Add one part. `following` are the parts after it."""
        getattr(self, f"_add_{part.kind}")(part, following)

    def flush(self) -> None:
        """Write the texts and pieces that wait as slides."""
        for number, part in enumerate(pack(fit_pieces(self.flow))):
            body = "".join(piece.html for piece in part)
            slide = Slide(self.kind, self.title, body, height=sum(piece.height for piece in part))
            slide.notes = render("\n\n".join(piece.notes for piece in part if piece.notes))
            if not body or (number == 0 and self._can_join(slide)):
                self._join(slide)
            else:
                self._append(slide)
        self.flow = []

    def _can_join(self, slide: Slide) -> bool:
        """Return whether a slide and the one before it, with the same heading, can be one."""
        last = self.deck.sections[-1][-1:]
        kinds = [("plain", "plain"), ("answer", "plain"), ("plain", "question")]
        return bool(last) and (last[0].kind, slide.kind) in kinds and last[0].height + slide.height <= ROOM

    def _join(self, slide: Slide) -> None:
        last = self.deck.slides[-1]
        last.body += slide.body
        last.notes += slide.notes
        last.height += slide.height
        if slide.kind == "question" and slide.body:
            last.kind = slide.kind

    def _append(self, slide: Slide) -> None:
        self.deck.sections[-1].append(slide)

    def _add_notes(self, notes: str) -> None:
        """Add what the audience does not see."""
        self.flow.append(Piece("", 0, notes))

    def _add_heading(self, part: Part, following: list[Part]) -> None:
        self.flush()
        self.title = part.text
        if has_exercise(following):
            self.kind = "task"
        else:
            self.kind = "question" if asks_for_prediction(following) else "plain"
        if self.deck.sections[-1]:
            self.deck.sections.append([])

    def _add_cell(self, _part: Part, following: list[Part]) -> None:
        """Begin a slide with a cell that asks for a prediction, and after an answer."""
        explains = self.kind == "answer" and following[0].kind == "box"
        if self.kind == "task" or explains or following[0].kind == "heading":
            return
        kind = "question" if asks_for_prediction(following) else "plain"
        if kind != self.kind:
            self.flush()
        self.kind = kind

    def _add_text(self, part: Part, following: list[Part]) -> None:
        if self.kind == "answer":
            self.flush()
            self.kind = "plain"
        pieces = read_pieces(part.text)
        is_short = all(piece.html.startswith("<p>") for piece in pieces) and len(pieces) <= MOST_TEXTS_OF_FIGURE
        if is_short and leads_to_figure(following):
            self.figure_notes = part.text
        elif self.kind in ("task", "question"):
            self.flow += [replace(piece, html=piece.html.replace(*EMPHASIS)) for piece in pieces]
        else:
            self.flow.append(part.text)

    def _add_box(self, part: Part, _following: list[Part]) -> None:
        if self.title == CHECK_YOURSELF:
            self.flow.append(f"- {part.summary}")
            self._add_notes(f"**{part.summary}** {part.text}")
        elif self.kind == "answer":
            self.flow += [f"**{part.summary}**", part.text]
        else:
            self._add_notes(f"**{part.summary}**\n\n{part.text}")

    def _add_output(self, part: Part, following: list[Part]) -> None:
        figure = self._find_figure(part.cell)
        if figure:
            self._add_figure(figure)
            return
        is_answer = self.kind == "question"
        if is_answer:
            self.flush()
            self.kind = "answer"
        code = "\n".join(line for line in part.cell.source.split("\n") if not line.startswith("#"))
        is_short = len(code.split("\n")) <= MOST_CODE_LINES and not is_wide(code)
        is_shown = is_short and "course." not in code and self.kind == "plain" and part.cell.outputs
        if is_shown:
            self.flow += [replace(piece, has_sequel=True) for piece in make_listing(code, "code")]
        for output in part.cell.outputs:
            self.flow += _read_output(output)
        if not is_shown:
            self._add_notes(f"```\n{part.cell.source}\n```")

    def _find_figure(self, cell: NotebookNode) -> Figure | None:
        for output in cell.outputs:
            fingerprint = read_fingerprint(output.get("metadata", {}))
            if fingerprint is not None:
                if fingerprint not in self.figures:
                    raise UnknownFigure(f"cell {cell.id}: no figure of the catalog has this content")
                return self.figures[fingerprint]
        return None

    def _add_figure(self, figure: Figure) -> None:
        """Add a slide with the figure. It is as large as its height allows."""
        self.flush()
        room = FIGURE_HEIGHT - FIGURE_LINE_HEIGHT * len(figure.first_scene.lines)
        width = min(FIGURE_WIDTH, room / figure.content.height * WIDTH)
        flat_width = min(FLAT_FIGURE_WIDTH, (room - CAPTION_HEIGHT) / figure.content.height * WIDTH)
        is_flat = flat_width > 1.2 * width
        style = f'class="figure{" flat" * is_flat}" style="--width: {max(width, flat_width * is_flat):.0f}px"'
        body = f"<div {style} data-prevent-swipe>{figure.page_html()}</div>"
        self._append(Slide("figure", self.title, body, render(self.figure_notes)))
        self.figure_notes = ""

    def _add_exercise(self, part: Part, _following: list[Part]) -> None:
        if self.kind != "task":
            self.flush()
        self.kind = "task"
        starter = "\n".join(self.starters[part.cell.id].split("\n")[1:])
        self.flow += make_listing(starter, "code")

    def _add_check(self, _part: Part, _following: list[Part]) -> None:
        """End the task. A box after its check is a slide, because it discusses the answer."""
        self.flush()
        self.kind = "answer"

    def _add_prediction(self, _part: Part, _following: list[Part]) -> None:
        """Leave out the cell in which a learner writes a prediction."""


def _read_output(output: NotebookNode) -> list[Piece]:
    """Return the pieces of a saved output. An answer that is folded in the notebook is open."""
    if output.output_type == "stream":
        return make_listing(output.text)
    data = output.data
    if "text/markdown" in data:
        return read_pieces(data["text/markdown"])
    if "text/html" not in data:
        return make_listing(data["text/plain"])
    if 'class="kg-compared"' in data["text/html"]:
        return read_comparison(data["text/html"])
    shown = FOLD.sub("", data["text/html"])
    pieces: list[Piece] = []
    # The parts at odd places are the listings.
    for number, part in enumerate(LISTING.split(shown)):
        if number % 2:
            pieces += make_listing(unescape(part))
        elif part.strip():
            height = PICTURE_HEIGHT if "<img" in part else LINE_HEIGHT
            pieces.append(Piece(f'<div class="output">{part}</div>', height))
    return pieces
