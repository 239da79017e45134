"""One pass explains any number of groups."""

from dataclasses import asdict

import pytest

import kafkagroups as kg
from tests.captured import folders
from tests.cases import case, first_quickly


@pytest.mark.parametrize("engine", first_quickly(["python", "compiled"], pytest.mark.slow))
@pytest.mark.parametrize("family", first_quickly(["dumplog", "crafted"], pytest.mark.slow))
def test_each_group_of_a_pattern_is_explained_as_if_it_was_asked_about_alone(family, engine):
    """Every crafted log, and the logs that other programs' texts come from, with both coordinators."""
    for folder in folders(family):
        for coordinator in ("classic", "new"):
            topic = kg.Topic(folder, coordinator, engine=engine)
            with case(f"{folder.name} {coordinator}"):
                together = topic.explain_groups("*")
                alone = [topic.explain(each.group) for each in together]
                assert list(map(asdict, together)) == list(map(asdict, alone))
