"""An error that prevents a pull is one line on stderr and exit code 2, never a traceback."""

import json
import re
import socket
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest

import kafkagroups as kg


@pytest.fixture
def pull(run, tmp_path):
    def call(*options, bootstrap="127.0.0.1:9", out=tmp_path / "pulled"):
        code, output, err = run("pull", "--bootstrap", bootstrap, "--out", out, *options)
        assert output == "" and err.count("\n") == 1
        return code, err.removeprefix("kafkagroups: ")

    return call


def test_the_client_is_not_installed(pull, monkeypatch):
    """The message contains the command that installs it."""
    monkeypatch.setitem(sys.modules, "kafka.net.manager", None)
    code, line = pull()
    assert code == 2 and "needs the Python package kafka-python" in line and "pip install 'kafkagroups[live]'" in line


def test_no_broker_listens(pull):
    """The message names each broker and the system's error."""
    pytest.importorskip("kafka", reason="no kafka-python")
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        port, other = (each.getsockname()[1] for each in (first, second))
    code, line = pull(bootstrap=f"127.0.0.1:{port},127.0.0.1:{other}")
    assert code == 2 and line.startswith("no broker responds: ")
    assert f"127.0.0.1:{port}" in line and f"127.0.0.1:{other}" in line and line.count("ECONNREFUSED") == 2


def test_a_name_that_does_not_resolve(pull):
    """A name of the reserved domain .invalid (RFC 2606)."""
    pytest.importorskip("kafka", reason="no kafka-python")
    assert pull(bootstrap="nowhere.invalid:9092") == (
        2,
        "no broker responds: nowhere.invalid:9092: DNS Resolution failure\n",
    )


@pytest.mark.parametrize("bootstrap", ["kafka", ":9092", "kafka:", "kafka:port", "kafka:0", "kafka:65536", "kafka:1,"])
def test_not_host_and_port(pull, bootstrap):
    """A bootstrap address is HOST:PORT, with commas between several."""
    pytest.importorskip("kafka", reason="no kafka-python")
    code, line = pull(bootstrap=bootstrap)
    assert code == 2 and "bootstrap: expected HOST:PORT of a broker, found " in line


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--security-protocol", "SASL_SSL"], "SASL needs a mechanism"),
        (["--security-protocol", "SASL_SSL", "--sasl-mechanism", "PLAIN", "--user", "me"], "a user and a password"),
        (["--security-protocol", "SASL_SSL", "--sasl-mechanism", "OAUTHBEARER"], "needs a token as its password"),
        (["--security-protocol", "SASL_PLAINTEXT", "--sasl-mechanism", "AWS_MSK_IAM"], "AWS_MSK_IAM needs SASL_SSL"),
        (["--security-protocol", "SASL_SSL", "--sasl-mechanism", "AWS_MSK_IAM"], "pip install botocore"),
        (["--user", "me"], "need SASL_SSL or SASL_PLAINTEXT, not PLAINTEXT"),
        (["--cafile", "ca.pem"], "certificates need SSL or SASL_SSL, not PLAINTEXT"),
        (["--security-protocol", "SSL", "--cafile", "/no/ca.pem"], "/no/ca.pem: not a usable PEM file"),
        (["--security-protocol", "SSL", "--certfile", __file__], f"{__file__}: not a usable PEM file"),
        (["--password-file", "/no/secret"], "/no/secret: No such file or directory"),
        (["--partitions", "3-1"], "expected numbers and ranges such as 0,3,7-9, found '3-1'"),
        (["--partitions", "0,,1"], "expected numbers and ranges such as 0,3,7-9, found '0,,1'"),
    ],
)
def test_options_that_do_not_go_together(pull, monkeypatch, options, expected):
    """They are refused before anything is sent."""
    pytest.importorskip("kafka", reason="no kafka-python")
    monkeypatch.delenv("KAFKAGROUPS_PASSWORD", raising=False)
    monkeypatch.setitem(sys.modules, "botocore", None)
    code, line = pull(*options)
    assert code == 2 and expected in line


def test_the_logins_of_managed_clusters(pull, monkeypatch):
    """OAUTHBEARER sends the token (RFC 7628, section 3.1). AWS_MSK_IAM signs with the keys that botocore finds."""
    pytest.importorskip("kafka", reason="no kafka-python")
    from kafka.net.manager import KafkaConnectionManager
    from kafka.net.sasl import get_sasl_mechanism

    keys = SimpleNamespace(access_key="AKID", secret_key="secret", token=None)
    credentials = SimpleNamespace(get_frozen_credentials=lambda: keys)
    session = SimpleNamespace(get_credentials=lambda: credentials, get_config_variable=lambda name: "eu-west-1")
    botocore = ModuleType("botocore")
    botocore.__spec__ = ModuleSpec("botocore", None)
    monkeypatch.setitem(sys.modules, "botocore", botocore)
    monkeypatch.setitem(sys.modules, "botocore.session", SimpleNamespace(Session=lambda: session))

    class Manager(KafkaConnectionManager):
        def __init__(self, net, **config):
            super().__init__(net, **config)
            logins.append(get_sasl_mechanism(config["sasl_mechanism"])(host="broker", **self.config).auth_bytes())
            raise kg.UsageError("seen")

    logins = []
    monkeypatch.setattr("kafka.net.manager.KafkaConnectionManager", Manager)
    monkeypatch.setenv("KAFKAGROUPS_PASSWORD", "a.token")
    pull("--security-protocol", "SASL_SSL", "--sasl-mechanism", "OAUTHBEARER", bootstrap="broker:9098")
    monkeypatch.delenv("KAFKAGROUPS_PASSWORD")
    pull("--security-protocol", "SASL_SSL", "--sasl-mechanism", "AWS_MSK_IAM", bootstrap="broker:9098")
    bearer, signed = logins
    assert bearer == b"n,,\x01auth=Bearer a.token\x01\x01"
    credential = json.loads(signed)["x-amz-credential"]
    assert re.fullmatch(r"AKID/\d{8}/eu-west-1/kafka-cluster/aws4_request", credential)


def test_a_folder_that_is_not_empty(pull, tmp_path):
    """A pull never overwrites files."""
    pytest.importorskip("kafka", reason="no kafka-python")
    (tmp_path / "something").touch()
    assert pull(out=tmp_path) == (2, f"{tmp_path}: expected a new or empty folder, found files in it\n")
