"""Comparison of two loads."""


def shape(groups):
    """Return everything that a load answers."""
    partitions_of = {group: sorted(map(str, where)) for group, where in groups.partitions_of.items()}
    return groups.groups, groups.orphans, groups.elsewhere, partitions_of, groups.partitions
