"""The recorded member ids of a conversation, supplied to our coordinator."""

from __future__ import annotations

import json
import re

from kafkagroups.replay.json_values import Json

_MEMBER_ID = re.compile(r'"([^"]*-[0-9a-f]{8}-[0-9a-f-]{27})"')


class RecordedMemberIds:
    """The supply of member ids, in the order of the conversation."""

    def __init__(self, lines: list[Json]) -> None:
        responses = [line["response"] for line in lines if line.get("api") == "JoinGroup" and line["response"]]
        self._used = {response["memberId"] for response in responses}
        self._recorded = dict.fromkeys(_MEMBER_ID.findall(json.dumps(lines, ensure_ascii=False)))
        self._next = ""
        self._created = 0

    def prepare(self, line: Json) -> None:
        """Note the id in the recorded response of the request that is played next, if it has one."""
        has_response = line["api"] == "JoinGroup" and line["response"]
        self._next = line["response"]["memberId"] if has_response else ""

    def supply(self, prefix: str) -> str:
        """Return a new member's id.

        It is the id of the recorded response; otherwise a recorded id with this prefix that no response contains;
        otherwise a new one.
        """
        if not self._next:
            unused = (each for each in self._recorded if each.startswith(f"{prefix}-") and each not in self._used)
            self._next = next(unused, f"{prefix}-{self._created:08x}-0000-4000-8000-000000000000")
            self._created += 1
        self._used.add(self._next)
        return self._next
