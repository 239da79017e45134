"""The command `pull` against a scripted broker, and a client that waits less."""

import json

import pytest

from kafkagroups.repair import client


@pytest.fixture
def quick(monkeypatch):
    """The client's waits between its attempts are short. Return them."""
    monkeypatch.setattr(client, "RETRY_DELAYS", (0.01, 0.01))
    return client.RETRY_DELAYS


@pytest.fixture
def early_reports(monkeypatch):
    """The client reports waits that are longer than a moment."""
    monkeypatch.setattr(client, "MIN_REPORTED_SECONDS", 0.2)


@pytest.fixture
def pull(run, tmp_path):
    """Pull into the folder `pulled`. Return the exit code, the partitions as JSON (if any), and the lines on stderr."""

    def call(address, *options):
        words = ("--bootstrap", address, "--out", tmp_path / "pulled", "--json")
        status, out, err = run("pull", *words, *options)
        return status, json.loads(out)["partitions"] if out else {}, err.replace("kafkagroups: ", "").splitlines()

    return call
