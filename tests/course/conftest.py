"""What several test files of the course share: the log of an incident, written once."""

import functools

import pytest

from kafkagroups.course.exercises.incidents.incident import SEED, find_incident, write_incident


@pytest.fixture(scope="session")
def write_log(tmp_path_factory):
    """A function that writes the log of an incident with a seed, and with the lesson's seed also its page."""

    @functools.cache
    def write_once(name, seed):
        folder = tmp_path_factory.mktemp(name)
        if seed == SEED:
            write_incident(find_incident(name), folder)
        else:
            find_incident(name).write(folder, seed)
        return folder

    return lambda name, seed=SEED: write_once(name, seed)
