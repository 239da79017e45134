"""When two loads are the same."""


def shape(groups):
    """All that a load says."""
    named = {group: sorted(map(str, where)) for group, where in groups.named.items()}
    return groups.groups, groups.orphans, groups.elsewhere, named, groups.partitions
