"""The short texts that a golden script records: answers, appended batches and the cache."""

import kafkagroups as kg
from kafkagroups import InvalidRecord, decode_subscription
from kafkagroups.coordinator import Errors
from tests.handmade import CompressionType, decode_control_key

EMPTY = '""'


def join(result):
    if result.error is not Errors.NONE:
        return " ".join(filter(None, [result.error.name, result.member_id]))
    members = ", members " + " ".join(sorted(each.member_id for each in result.members)) if result.members else ""
    skips = ", skips the assignment" if result.skip_assignment else ""
    return (
        f"{result.member_id}, generation {result.generation}, {result.protocol}, leader {result.leader}{members}{skips}"
    )


def sync(result):
    return result.assignment.decode() or "-" if result.error is Errors.NONE else result.error.name


def leave(result):
    each = [
        f"{f'{it.member_id}/{it.group_instance_id}' if it.group_instance_id else it.member_id or EMPTY} {error.name}"
        for it, error in result.members
    ]
    return ", ".join(each) if result.error is Errors.NONE else result.error.name


def commits(offsets):
    """Return a function that writes the answer to a commit of these offsets (by partition, as in the script)."""
    numbers = {partition: offset.partition(":")[0] for partition, offset in offsets.items()}

    def write(errors):
        each = (f"{topic}-{at}={numbers[f'{topic}-{at}']} {error.name}" for (topic, at), error in errors.items())
        return ", ".join(each) or "nothing"

    return write


def errors(partitions):
    return ", ".join(f"{topic}-{at} {error.name}" for (topic, at), error in partitions.items())


def fetch(result):
    if result.error is not Errors.NONE:
        return result.error.name
    found = []
    for (topic, at), it in result.offsets.items():
        epoch = f"@{it.leader_epoch}" if it.leader_epoch != -1 else ""
        error = f" {it.error.name}" if it.error is not Errors.NONE else ""
        found.append(f"{topic}-{at} {it.offset}{epoch}{_metadata(it.metadata)}{error}")
    return ", ".join(found) or "nothing"


def described(group):
    if group.error is not Errors.NONE:
        return group.error.name
    members = "".join(
        f"; {each.member_id}{_topics(each.metadata)}{' has ' + each.assignment.decode() if each.assignment else ''}"
        for each in sorted(group.members, key=lambda member: member.member_id)
    )
    return " ".join(filter(None, [group.state, group.protocol_type, group.protocol])) + members


def listed(error, groups):
    found = [" ".join(filter(None, [each.group_id, each.protocol_type or "-", each.state])) for each in groups]
    return ", ".join([error.name] * (error is not Errors.NONE) + sorted(found)) or "nothing"


def deleted(groups):
    return ", ".join(f"{name or EMPTY} {error.name}" for name, error in groups.items())


def cached(group):
    if group is None:
        return "None"
    found = [f"{group.state.value}, generation {group.generation}"]
    if group.members:
        found.append(f"members {' '.join(sorted(group.members))}, rebalance timeout {group.rebalance_timeout_ms}")
    if group.pending_members:
        found.append(f"pending members {' '.join(sorted(group.pending_members))}")
    there = group.offsets
    places = {"committed": there.committed, "pending": there.pending}
    places |= {f"transaction {producer}": offsets for producer, offsets in there.transactions.items()}
    for place, offsets in places.items():
        if offsets:
            found.append(f"{place} " + " ".join(f"{topic}-{at}={it.offset}" for (topic, at), it in offsets.items()))
    return "; ".join(found)


def cache(manager):
    open_groups = [f"{producer}: {' '.join(sorted(groups))}" for producer, groups in manager.open_groups.items()]
    return "; ".join(
        f"{name} {' '.join(map(str, sorted(values))) or '-'}"
        for name, values in (
            ("groups", manager.groups),
            ("owned", manager.owned),
            ("loading", manager.loading),
            ("open transactions", open_groups),
        )
    )


def batch(partition, batch, rules):
    """Return `+ partition:first..last`, then a line for each record."""
    head = f"+ {partition}:{batch.base_offset}..{batch.last_offset}"
    if batch.compression is not CompressionType.NONE:
        head += f" {batch.compression.name.lower()}"
    if batch.is_transactional and not batch.is_control:
        head += f" of producer {batch.producer_id}/{batch.producer_epoch}"
    return "\n".join([head, *(f"  {_record(batch, each, rules)}" for each in batch.records)])


def _record(batch, record, rules):
    if batch.is_control:
        return f"{decode_control_key(record.key).name} of producer {batch.producer_id}/{batch.producer_epoch}"
    it = kg.decode(record.key, record.value, rules)
    name = it.key.group or EMPTY
    if it.type == 1:
        name += f"/{it.key.topic}-{it.key.partition}"
    if it.value is None:
        return f"{name} <DELETE>"
    return f"{name} = {(_offset if it.type == 1 else _group)(it.value, record.timestamp)} (v{it.value_version})"


def _offset(value, now):
    epoch = f"@{value.leader_epoch}" if value.leader_epoch != -1 else ""
    committed = f", committed {value.commit_timestamp - now:+}" if value.commit_timestamp != now else ""
    expires = f", expires {value.expire_timestamp - now:+}" if value.expire_timestamp != -1 else ""
    return f"{value.offset}{epoch}{_metadata(value.metadata)}{committed}{expires}"


def _group(value, now):
    members = sorted(value.members, key=lambda member: member.member_id)
    written = [
        f"{each.member_id}{f' ({each.group_instance_id})' if each.group_instance_id else ''} "
        f"{each.assignment.decode() or '-'}"
        for each in members
    ]
    protocol = f" {value.protocol}, leader {value.leader}" if value.leader else ""
    return f"generation {value.generation}, {value.protocol_type}{protocol}, {'; '.join(written) or 'nobody'}"


def _metadata(metadata):
    if len(metadata) > 40:
        metadata = f"{metadata[0]}*{len(metadata)}"
    return f' "{metadata}"' if metadata else ""


def _topics(metadata):
    try:
        return " reads " + ",".join(decode_subscription(metadata).message.topics) if metadata else ""
    except InvalidRecord:
        return f" {metadata.decode()}"
