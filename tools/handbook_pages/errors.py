"""The page about errors: which request answers an error, when, and what to do."""

from __future__ import annotations

from collections.abc import Iterable

from handbook_pages.facts import Answer, ErrorEntry, ErrorFacts, read_errors
from handbook_pages.markdown import link_heading, make_table, read_paragraphs
from kafkagroups.coordinator.messages import Errors, convert_commit_append_error, convert_group_append_error


def write_pages() -> dict[str, str]:
    """Return the page by its name."""
    facts = read_errors()
    parts = [
        "# Errors",
        *read_paragraphs(facts.about),
        "## By request",
        make_table(
            ("request", "errors of the classic coordinator", "errors of the new coordinator"),
            list_errors_by_request(facts),
        ),
        "## Errors of an append",
        "If the append of a batch fails, the coordinator translates the error. The client gets the error in the second "
        "or third column. Every other error of an append is answered unchanged.",
        make_table(
            ("the append ends with", "answer to a commit", "answer to JoinGroup or SyncGroup"), _list_conversions()
        ),
        "## The classic coordinator",
    ]
    for name, entry in facts.classic.items():
        parts.append(f"### {_make_title(name, entry)}")
        if entry.answers:
            parts.append(_make_answer_table(facts.list_answers(entry)))
        else:
            parts.append("An append can end with this error. The client gets [another error](#errors-of-an-append).")
        parts.append(_write_advice(entry))
    parts += [
        "## The new coordinator",
        *read_paragraphs(facts.about_new),
        make_table(
            ("error", "request", "in 4.x"),
            [(name, ", ".join(answer.requests), answer.when) for name, answer in facts.list_classic_only()],
        ),
    ]
    for name, entry in facts.new.items():
        parts.append(f"### {_make_new_title(name, entry)}")
        parts.append(_make_answer_table(facts.list_answers(entry)))
        parts.append(_write_advice(entry))
    parts.append(f"Source: {facts.source}")
    return {"errors.md": "\n\n".join(parts) + "\n"}


def list_errors_by_request(facts: ErrorFacts) -> list[tuple[str, str, str]]:
    """Return each request with links to the errors that the classic and the new coordinator answer."""
    classic: dict[str, dict[str, str]] = {}
    new: dict[str, dict[str, str]] = {}
    classic_only = {(request, name) for name, answer in facts.list_classic_only() for request in answer.requests}
    for name, entry in facts.classic.items():
        for request in _list_requests(facts, entry):
            link = link_heading(_make_title(name, entry))
            classic.setdefault(request, {})[name] = link
            if (request, name) not in classic_only:
                new.setdefault(request, {})[name] = link
    for name, entry in facts.new.items():
        for request in _list_requests(facts, entry):
            new.setdefault(request, {}).setdefault(name, link_heading(_make_new_title(name, entry)))
    return [(request, _join(classic.get(request, {})), _join(new[request])) for request in sorted(new)]


def _list_requests(facts: ErrorFacts, entry: ErrorEntry) -> list[str]:
    return [request for answer in facts.list_answers(entry) for request in answer.requests]


def _join(links: dict[str, str]) -> str:
    codes = {name: Errors[name].value for name in links if name != Errors.NONE.name}
    return ", ".join(links[name] for name in sorted(codes, key=codes.__getitem__)) or "–"


def _make_new_title(name: str, entry: ErrorEntry) -> str:
    return f"New coordinator: {_make_title(name, entry)}"


def _make_title(name: str, entry: ErrorEntry) -> str:
    return f"{name} ({entry.code})"


def _write_advice(entry: ErrorEntry) -> str:
    return f"- **Client:** {entry.client}\n- **Operator:** {entry.operator}"


def _make_answer_table(answers: Iterable[Answer]) -> str:
    return make_table(("request", "when"), [(", ".join(answer.requests), answer.when) for answer in answers])


def _list_conversions() -> list[tuple[str, str, str]]:
    """Return each error of an append that the coordinator does not answer unchanged."""
    rows = []
    for error in Errors:
        commit_error = convert_commit_append_error(error, verifies_transactions=True)
        group_error = convert_group_append_error(error)
        if commit_error is not error or group_error is not error:
            # Only a commit has a transaction to verify, so the append of a group's record never ends with this error.
            shown_group_error = "–" if error is Errors.NETWORK_EXCEPTION else group_error.name
            rows.append((error.name, commit_error.name, shown_group_error))
    return rows
