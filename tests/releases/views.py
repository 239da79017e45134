"""The result of one load, in one form for Kafka's coordinator (`kafka_view`) and for this package (`package_view`)."""

from __future__ import annotations

import re
from typing import Any

from kafkagroups.groups.group import Group
from kafkagroups.loading.groups import group_json, offsets_json, pending_json

CONSUMER_STATES = {None: "STABLE", 0: "STABLE", 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS"}
STREAMS_STATES = {None: None, 1: "STABLE", 2: "UNREVOKED_TASKS", 3: "UNRELEASED_TASKS"}
UNKNOWN_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def package_view(groups: Any) -> dict[str, Any]:
    """Return what this package loads from one partition."""
    (partition,) = groups.partitions.values()
    if partition.error is not None:
        found = re.search(r"offset (\d+)", partition.error)
        return {"failure": int(found[1]) if found else "after the last record"}
    view: dict[str, Any] = {"failure": None, "groups": {}, "offsets": {}, "pending": {}}
    for name, group in groups.items():
        view["groups"][name] = _package_group(group)
    for name, holder in [*groups.items(), *groups.orphans.items()]:
        if getattr(holder, "type", "") != "share" and holder.offsets:
            view["offsets"][name] = {
                partition: [
                    offset["offset"],
                    offset["leader_epoch"],
                    offset["metadata"],
                    offset["commit_timestamp"],
                    offset["expire_timestamp"],
                    offset["topic_id"],
                    offset["record_offset"],
                ]
                for partition, offset in offsets_json(holder.offsets).items()
            }
        pending = pending_json(holder.pending)
        if pending:
            view["pending"][name] = {
                partition: sorted([each["producer_id"], each["offset"], each["record_offset"]] for each in waiting)
                for partition, waiting in pending.items()
            }
    return view


def _package_group(group: Any) -> dict[str, Any]:
    shown = group_json(group)
    if isinstance(group, Group):
        fields = ("type", "state", "protocol_type", "generation", "leader")
        view = {field: shown[field] for field in fields} | {"protocol": group.protocol}
        view["members"] = {
            member["member_id"]: [
                member["group_instance_id"],
                member["client_id"],
                member["client_host"],
                member["rebalance_timeout_ms"],
                member["session_timeout_ms"],
                member["subscription_hex"],
                member["assignment_hex"],
            ]
            for member in shown["members"]
        }
        return view
    view = {field: shown[field] for field in ("type", "state", "group_epoch", "assignment_epoch")}
    if group.type == "consumer":
        view["assignor"] = group.assignor
    if group.type == "streams":
        view["topology"] = shown["topology"] and [
            shown["topology"]["epoch"],
            [part["subtopologyId"] for part in shown["topology"]["subtopologies"]],
        ]
    view["members"] = {}
    for member in shown["members"]:
        state = group.members[member["member_id"]].state
        common = {
            "epoch": member["member_epoch"],
            "rack": member["rack_id"],
            "client": [member["client_id"], member["client_host"]],
            "assignment": member["assignment"],
        }
        if group.type == "streams":
            common |= {
                "state": STREAMS_STATES.get(state, "UNKNOWN"),
                "instance": member["group_instance_id"],
                "process": member["process_id"],
                "topology epoch": member["topology_epoch"],
            }
        else:
            common |= {"topics": sorted(member["subscribed_topic_names"])}
        if group.type == "consumer":
            common |= {
                "state": CONSUMER_STATES.get(state, "UNKNOWN"),
                "instance": member["group_instance_id"],
                "pattern": member["subscribed_topic_regex"],
                "type": member["member_type"],
            }
        view["members"][member["member_id"]] = common
    view["targets"] = {
        name: tasks for name in group.targets if (tasks := _target(shown, name, group.targets[name])) is not None
    }
    return view


def _target(shown: dict[str, Any], name: str, value: Any) -> Any:
    for member in shown["members"]:
        if member["member_id"] == name:
            return member["target_assignment"]
    return None


def kafka_view(answer: dict[str, Any], release: str) -> dict[str, Any]:
    """Return what that release's coordinator holds, from the output of Replay.java."""
    failure = answer["failure"]
    if failure is not None:
        return {"failure": "after the last record" if failure["offset"] is None else failure["offset"]}
    version = tuple(map(int, release.split(".")))
    groups = {name: _kafka_group(group, version) for name, group in answer["groups"].items()}
    share_groups = {name for name, group in groups.items() if group["type"] == "share"}
    pending: dict[str, dict[str, list[Any]]] = {}
    for producer, by_group in answer["pending"].items():
        for name, topics in by_group.items():
            for partition, offset in _partitions(topics).items():
                entry = [int(producer), offset["committedOffset"], offset["recordOffset"]]
                pending.setdefault(name, {}).setdefault(partition, []).append(entry)
    return {
        "failure": None,
        "groups": groups,
        "offsets": {
            name: {partition: _offset(offset) for partition, offset in _partitions(topics).items()}
            for name, topics in answer["offsets"].items()
            if name not in share_groups and _partitions(topics)
        },
        "pending": {
            name: {partition: sorted(entries) for partition, entries in partitions.items()}
            for name, partitions in pending.items()
        },
    }


def _partitions(topics: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        f"{topic}-{partition}": offset
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }


def _offset(offset: dict[str, Any]) -> list[Any]:
    topic_id = offset.get("topicId")
    return [
        offset["committedOffset"],
        -1 if offset["leaderEpoch"] is None else offset["leaderEpoch"],
        offset["metadata"],
        offset["commitTimestampMs"],
        offset["expireTimestampMs"],
        None if topic_id == UNKNOWN_TOPIC_ID else topic_id,
        offset["recordOffset"],
    ]


def _kafka_group(group: dict[str, Any], version: tuple[int, ...]) -> dict[str, Any]:
    if group["type"] == "classic":
        return {
            "type": "classic",
            "state": group["stateAsString"],
            "protocol_type": group["protocolType"] or "",
            "generation": group["generationId"],
            "leader": group["leaderId"],
            "protocol": group["protocolName"],
            "members": {
                name: [
                    member["groupInstanceId"],
                    member["clientId"],
                    member["clientHost"],
                    member["rebalanceTimeoutMs"],
                    member["sessionTimeoutMs"],
                    member["supportedProtocols"][0]["metadata"],
                    member["assignment"],
                ]
                for name, member in group["members"].items()
            },
        }
    metadata = group.get("targetAssignmentMetadata") or {"assignmentEpoch": group.get("targetAssignmentEpoch")}
    view = {
        "type": group["type"],
        "state": group["stateAsString"],
        "group_epoch": group["groupEpoch"],
        "assignment_epoch": metadata["assignmentEpoch"],
    }
    if group["type"] == "consumer":
        view["assignor"] = group["preferredServerAssignor"] or "uniform"
    if group["type"] == "streams":
        topology = group["topology"]
        view["topology"] = topology and [topology["topologyEpoch"], sorted(topology["subtopologies"])]
    view["members"] = {name: _kafka_member(group["type"], member, version) for name, member in group["members"].items()}
    view["targets"] = {
        name: _tasks(target) if group["type"] == "streams" else _sorted(target["partitions"])
        for name, target in group["targetAssignment"].items()
        if name in group["members"]
    }
    return view


def _kafka_member(kind: str, member: dict[str, Any], version: tuple[int, ...]) -> dict[str, Any]:
    common = {
        # A streams member without a record of type 22 has no epoch. A broker cannot describe such a group.
        "epoch": member["memberEpoch"] or 0,
        "rack": member["rackId"],
        "client": [member["clientId"] or "", member["clientHost"] or ""],
    }
    if kind == "streams":
        return common | {
            "assignment": _tasks(member["assignedTasks"]),
            "state": member["state"],
            "instance": member["instanceId"],
            "process": member["processId"],
            "topology epoch": member["topologyEpoch"],
        }
    held = _sorted(member["assignedPartitions"])
    if kind == "share":
        return common | {"assignment": held, "topics": sorted(member["subscribedTopicNames"])}
    if version >= (4, 3):
        for topic, partitions in _sorted(member["partitionsPendingRevocation"]).items():
            held[topic] = sorted({*held.get(topic, ()), *partitions})
    return common | {
        "assignment": held,
        "topics": sorted(member["subscribedTopicNames"]),
        "state": member["state"],
        "instance": member["instanceId"],
        "pattern": member["subscribedTopicRegex"],
        "type": 1 if member["classicMemberMetadata"] is None else 0,
    }


def _sorted(assignment: Any) -> dict[str, list[int]]:
    """Partitions by topic. A release that keeps their epochs has a map of them instead of a list."""
    return {topic: sorted(map(int, partitions)) for topic, partitions in (assignment or {}).items()}


def _tasks(tasks: Any) -> dict[str, dict[str, list[int]]]:
    if tasks is None:
        return {"active": {}, "standby": {}, "warmup": {}}
    active = tasks["activeTasksWithEpochs"] if "activeTasksWithEpochs" in tasks else tasks["activeTasks"]
    kinds = {"active": active, "standby": tasks["standbyTasks"], "warmup": tasks["warmupTasks"]}
    return {kind: dict(sorted(_sorted(parts).items())) for kind, parts in kinds.items()}
