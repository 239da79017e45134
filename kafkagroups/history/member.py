"""A member of a group as its newest record describes it."""

from __future__ import annotations

from typing import NamedTuple


class Member(NamedTuple):
    """A member as its newest record describes it.

    `topics` are the names of the topics to which the member subscribes; None if the subscription cannot be read.
    `pattern` is the pattern of topic names to which it subscribes. A streams member has neither: its topology is in
    another record. The timeouts are in ms. Those fields that the record does not have are None, or "" for the host.
    """

    name: str
    instance_id: str | None
    topics: frozenset[str] | None
    pattern: str | None = None
    client_id: str = ""
    host: str = ""
    rack: str | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None

    @property
    def description(self) -> str:
        """The member's name and its host."""
        return f"{self.name}{self.host_text}"

    @property
    def host_text(self) -> str:
        """The host in parentheses, as a part of a sentence; "" if the host is not known."""
        host = self.host.removeprefix("/")
        return f" ({host})" if host else ""

    @property
    def settings(self) -> dict[str, object]:
        """What a new process of the same static member can have changed, by the name in a sentence."""
        return {
            "client id": self.client_id,
            "host": self.host.removeprefix("/"),
            "rack": self.rack,
            "session timeout": _describe_ms(self.session_timeout_ms),
            "rebalance timeout": _describe_ms(self.rebalance_timeout_ms),
        }


def describe_new_settings(old: Member, new: Member) -> str:
    """Return the settings that differ, for example "rack a -> none"; "" if none differs."""
    return ", ".join(
        f"{name} {_describe_setting(old.settings[name])} -> {_describe_setting(setting)}"
        for name, setting in new.settings.items()
        if setting != old.settings[name]
    )


def _describe_ms(ms: int | None) -> str | None:
    return None if ms is None else f"{ms} ms"


def _describe_setting(setting: object) -> str:
    return "none" if setting is None or setting == "" else str(setting)
