"""What differs between the answers of a broker, as the cases of `releases` hold them, and the groups that we load."""

from __future__ import annotations

from typing import Any

from kafkagroups.loading.groups import group_json, offsets_json, pending_json

CONSUMER_MEMBER = {
    "memberId": "member_id",
    "instanceId": "group_instance_id",
    "rackId": "rack_id",
    "memberEpoch": "member_epoch",
    "clientId": "client_id",
    "clientHost": "client_host",
    "subscribedTopicNames": "subscribed_topic_names",
    "subscribedTopicRegex": "subscribed_topic_regex",
    "memberType": "member_type",
}
"""Kafka's names of a member's fields in ConsumerGroupDescribe, and ours."""
SHARE_MEMBER = {
    name: CONSUMER_MEMBER[name]
    for name in ("memberId", "rackId", "memberEpoch", "clientId", "clientHost", "subscribedTopicNames")
}
STREAMS_MEMBER = {
    name: CONSUMER_MEMBER[name]
    for name in ("memberId", "instanceId", "rackId", "memberEpoch", "clientId", "clientHost")
} | {"topologyEpoch": "topology_epoch", "processId": "process_id"}
CLASSIC_MEMBER = {
    "member_id": "member_id",
    "group_instance_id": "group_instance_id",
    "client_id": "client_id",
    "client_host": "client_host",
    "metadata_hex": "subscription_hex",
    "assignment_hex": "assignment_hex",
}


def differences(groups: Any, answers: dict[str, Any]) -> list[str]:
    """Return what a broker answered otherwise than `groups` says. An empty list: everything is the same."""
    found: list[str] = []

    def expect(what: str, mine: Any, kafka: Any) -> None:
        if mine != kafka:
            found.append(f"{what}: Kafka says {kafka}, found {mine}")

    shown = {name: group_json(group) for name, group in groups.items()}
    _compare_offsets(groups, answers, expect)
    if "listed" in answers:
        listed = {
            name: {field: group[field] for field in ("protocol_type", "state", "type")} for name, group in shown.items()
        }
        expect("listed groups", listed, _without_errors(answers["listed"]))
    for name, kafka in answers.get("groups", {}).items():
        mine = shown.get(name)
        is_classic = mine is not None and mine["type"] == "classic"
        if kafka.get("error", "NONE") != "NONE":
            expect(f"group {name}", is_classic, False)
        elif kafka["state"] == "Dead":
            expect(f"group {name} is known", is_classic, False)
        elif mine is not None:
            fields = ("state", "protocol_type", "protocol")
            expect(f"group {name}", {field: mine[field] for field in fields}, {field: kafka[field] for field in fields})
            _compare_members(name, mine, kafka, CLASSIC_MEMBER, expect)
    for part, member_fields in (
        ("consumer_groups", CONSUMER_MEMBER),
        ("share_groups", SHARE_MEMBER),
        ("streams_groups", STREAMS_MEMBER),
    ):
        described = answers.get(part) or {}
        for name, kafka in {} if "request_failed" in described else described.items():
            if "error" in kafka and not kafka["error"].startswith(("NOT_COORDINATOR", "INVALID_GROUP_ID")):
                continue  # This release has no such request, or cannot describe a streams group without a topology.
            mine = shown.get(name)
            is_known = mine is not None and mine["type"] == part.removesuffix("_groups")
            expect(f"{part} has {name}", is_known, "error" not in kafka)
            if is_known and "error" not in kafka:
                fields = [field for field in ("state", "group_epoch", "assignment_epoch", "assignor") if field in kafka]
                expect(
                    f"group {name}", {field: mine[field] for field in fields}, {field: kafka[field] for field in fields}
                )
                _compare_members(name, mine, kafka, member_fields, expect)
                if part == "streams_groups":
                    _compare_tasks(name, mine, kafka, expect)
    return found


def _without_errors(listed: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {"type": "classic"} | {field: value for field, value in group.items() if field != "error"}
        for name, group in listed.items()
    }


def _compare_offsets(groups: Any, answers: dict[str, Any], expect: Any) -> None:
    for name, kafka in answers["offsets"].items():
        if "error" in kafka:
            expect(f"group {name} is known", name in groups or name in groups.orphans, False)
            continue
        mine = offsets_json(groups[name].offsets) if name in groups else {}
        same_fields = {
            partition: {field: value for field, value in offset.items() if field in kafka.get(partition, offset)}
            for partition, offset in mine.items()
        }
        expect(f"offsets of {name}", same_fields, kafka)
    for name, kafka in answers["stable"].items():
        if "error" in kafka:
            continue
        holder = groups.get(name) or groups.orphans.get(name)
        mine = set(pending_json(holder.pending)) if holder else set()
        unstable = {partition for partition, offset in kafka.items() if "UNSTABLE_OFFSET_COMMIT" in str(offset)}
        expect(f"pending partitions of {name}", mine, unstable)


def _compare_members(name: str, mine: Any, kafka: Any, fields: dict[str, str], expect: Any) -> None:
    members = sorted(kafka.get("members") or (), key=lambda member: member.get("memberId", member.get("member_id")))
    answered = {field for member in members for field in member}  # 3.9.2 answers without a member's type.
    fields = {theirs: ours for theirs, ours in fields.items() if theirs in answered}
    shown = [
        {theirs: member[ours] for theirs, ours in fields.items()}
        for member in (mine["members"] if "members" in kafka else ())
    ]
    if "metadata_hex" in fields and mine["state"] != "Stable":
        for member in shown:  # A broker shows the metadata of a stable group only.
            member["metadata_hex"] = ""
    expected = [{field: member.get(field) for field in fields} for member in members]
    for member, answer in zip(shown, expected, strict=False):
        if str(answer.get("assignment_hex")).endswith(" bytes"):  # The answer has only the length of a long assignment.
            member["assignment_hex"] = f"{len(member['assignment_hex']) // 2} bytes"
    expect(f"members of {name}", _sorted_topics(shown), _sorted_topics(expected))


def _sorted_topics(members: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        member | {"subscribedTopicNames": sorted(member["subscribedTopicNames"])}
        if member.get("subscribedTopicNames") is not None
        else member
        for member in members
    ]


def _compare_tasks(name: str, mine: Any, kafka: Any, expect: Any) -> None:
    theirs = {member["memberId"]: member for member in kafka["members"]}
    for member in mine["members"]:
        described = theirs.get(member["member_id"], {})
        for ours, field in (("assignment", "assignment"), ("target_assignment", "targetAssignment")):
            tasks = {
                kind: {
                    part["subtopologyId"]: sorted(part["partitions"])
                    for part in described.get(field, {}).get(f"{kind}Tasks", ())
                }
                for kind in ("active", "standby", "warmup")
            }
            expect(f"{field} of {member['member_id']} in {name}", member[ours], tasks)
    expect(f"topology of {name}", bool(mine["topology"]), bool(kafka.get("topology")))
