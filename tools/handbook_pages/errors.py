"""The page about errors: which request answers an error, when, and what to do."""

from __future__ import annotations

from collections.abc import Iterable

from handbook_pages.markdown import link_heading, make_table, read_source
from kafkagroups.coordinator import error_answers
from kafkagroups.coordinator.error_answers import CLASSIC_ERRORS, NEW_PROTOCOL_ERRORS, Answer
from kafkagroups.coordinator.error_codes import Errors, convert_commit_append_error, convert_group_append_error


def write_pages() -> dict[str, str]:
    """Return the page by its name."""
    parts = [
        "# Errors",
        "A response contains error codes. A code belongs to the whole request, to a group, to a member or to a "
        "partition. The sentences about clients describe the Java consumer.",
        "## By request",
        make_table(("request", "errors of the classic coordinator"), list_errors_by_request()),
        "## Errors of an append",
        "If the append of a batch fails, the coordinator translates the error. The client gets the error in the second "
        "or third column. Every other error of an append is answered unchanged.",
        make_table(
            ("the append ends with", "answer to a commit", "answer to JoinGroup or SyncGroup"), _list_conversions()
        ),
        "## The classic coordinator",
    ]
    for error, entry in CLASSIC_ERRORS.items():
        parts.append(f"### {_make_title(error)}")
        if entry.answers:
            parts.append(_make_answer_table(entry.answers))
        else:
            parts.append("An append can end with this error. The client gets [another error](#errors-of-an-append).")
        parts.append(f"- **Client:** {entry.client}\n- **Operator:** {entry.operator}")
    parts += [
        "## The new coordinator",
        "The new coordinator answers the same requests with the same errors, and has more requests. All of them also "
        "answer COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR and "
        "GROUP_AUTHORIZATION_FAILED. The errors below were recorded from brokers of 4.3.1 and 4.4.0.",
    ]
    for new_error in NEW_PROTOCOL_ERRORS:
        parts.append(f"### New coordinator: {new_error.name} ({new_error.code})")
        parts.append(_make_answer_table(new_error.answers))
        parts.append(f"- **Client:** {new_error.client}\n- **Operator:** {new_error.operator}")
    parts.append(f"Source: {read_source(error_answers.__doc__)}")
    return {"errors.md": "\n\n".join(parts) + "\n"}


def list_errors_by_request() -> list[tuple[str, str]]:
    """Return each request with links to the errors that it answers."""
    errors_by_request: dict[str, list[str]] = {}
    for error, entry in CLASSIC_ERRORS.items():
        requests = dict.fromkeys(request for answer in entry.answers for request in answer.requests)
        for request in requests if error is not Errors.NONE else ():
            errors_by_request.setdefault(request, []).append(link_heading(_make_title(error)))
    return [(request, ", ".join(errors)) for request, errors in sorted(errors_by_request.items())]


def _make_title(error: Errors) -> str:
    return f"{error.name} ({error.value})"


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
