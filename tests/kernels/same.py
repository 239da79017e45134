"""Comparison of two loads."""


def shape(groups):
    """Return everything that a load answers."""
    named = {group: sorted(map(str, where)) for group, where in groups.named.items()}
    return groups.groups, groups.orphans, groups.elsewhere, named, groups.partitions
