"""The member ids of a recorded conversation. Our coordinator gives these ids to its new members."""

from __future__ import annotations

import json
import re

from kafkagroups.replay.json_values import Json

# A member id is the client id or the instance id, a hyphen, and a random UUID.
_MEMBER_ID = re.compile(r'"([^"]*-[0-9a-f]{8}-[0-9a-f-]{27})"')


class RecordedMemberIds:
    """The member ids of a conversation, in their recorded order.

    A real broker creates random member ids. The replay must give each member the recorded id, because the member's
    later requests contain this id.
    """

    def __init__(self, lines: list[Json]) -> None:
        responses = [line["response"] for line in lines if line.get("api") == "JoinGroup" and line["response"]]
        self._used_ids = {response["memberId"] for response in responses}
        self._recorded_ids = dict.fromkeys(_MEMBER_ID.findall(json.dumps(lines, ensure_ascii=False)))
        self._next_id = ""
        self._created_count = 0

    def prepare(self, line: Json) -> None:
        """Prepare the id that `supply` returns during the next request. Call this method before each request.

        `line` has the request and its recorded response.
        """
        has_response = line["api"] in ("JoinGroup", "ConsumerGroupHeartbeat") and line["response"]
        self._next_id = line["response"]["memberId"] or "" if has_response else ""

    def supply(self, prefix: str) -> str:
        """Return the id of a new member. `prefix` is the member's client id or instance id.

        The id is the first of these that exists:

        - the id in the recorded response to the request
        - an unused recorded id that begins with the prefix
        - a new id
        """
        if not self._next_id:
            unused_ids = (
                member_id
                for member_id in self._recorded_ids
                if member_id.startswith(f"{prefix}-") and member_id not in self._used_ids
            )
            self._next_id = next(unused_ids, f"{prefix}-{self._created_count:08x}-0000-4000-8000-000000000000")
            self._created_count += 1
        self._used_ids.add(self._next_id)
        return self._next_id
