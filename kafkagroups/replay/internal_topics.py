"""The ids of Kafka's internal topics in a recorded conversation.

A pattern can match them, too. The header of a conversation does not name them, but what members are assigned does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafkagroups.replay.json_values import Json

INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")
_UNSEEN_IDS = {name: f"{name.strip('_'):A<22.22}".replace("_", "A") for name in INTERNAL_TOPICS}
"""An id for a topic whose id no client has seen."""


def find_internal_topic_ids(lines: list[Json], known_ids: set[str]) -> dict[str, str]:
    """Return the ids of the internal topics, by name. `known_ids` are the ids of all topics in the header.

    Descriptions of groups have names and ids. Where there are none, an unknown id with a partition above 0 is the
    offsets topic, because the topic of transactions has only one partition in a recording.
    """
    ids = dict(_UNSEEN_IDS)
    unnamed: dict[str, int] = {}
    created = {
        topic.get("topicId")
        for line in lines
        if line.get("api") == "CreateTopics" and line["response"]
        for topic in line["response"]["topics"]
    }
    for topic in _iterate_topics([line["response"] for line in lines if line.get("response")]):
        if topic.get("topicName") in ids:
            ids[topic["topicName"]] = topic["topicId"]
        elif topic["topicId"] not in known_ids | created:
            unnamed[topic["topicId"]] = max([unnamed.get(topic["topicId"], 0), *topic["partitions"]])
    for topic_id, highest in unnamed.items():
        name = INTERNAL_TOPICS[0 if highest else 1]
        if ids[name] == _UNSEEN_IDS[name] and topic_id not in ids.values():
            ids[name] = topic_id
    return ids


def _iterate_topics(value: Any) -> Iterator[Json]:
    """Yield all objects that say which partitions of a topic a member has."""
    if isinstance(value, dict):
        numbers = value.get("partitions")
        if "topicId" in value and isinstance(numbers, list) and all(isinstance(each, int) for each in numbers):
            yield value
        for each in value.values():
            yield from _iterate_topics(each)
    elif isinstance(value, list):
        for each in value:
            yield from _iterate_topics(each)
