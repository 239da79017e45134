"""How the commands print long metadata: a program can keep its state there, up to offset.metadata.max.bytes (4096)."""

import json

import pytest

from tests.history.logs import START, commit, write_each

ABOUT = {"group": "stitcher", "topic": "clicks", "partition": 2}
METADATA = f'{{"open":{["s-bddfa5"] * 334}'.replace("'", '"').replace(" ", "")


@pytest.mark.parametrize(
    "command",
    [("load",), ("explain", "--group=stitcher", "--topic=clicks", "--partition=2"), ("rescue", "plan")],
    ids=lambda command: command[0],
)
def test_the_text_shows_the_first_characters_and_the_length_and_json_everything(command, tmp_path, run):
    log = write_each(tmp_path, [commit(4365, START, metadata=METADATA, **ABOUT)])
    _, out, _ = run(*command, log)
    text = " ".join(out.split())
    assert f"{METADATA[:40]}… " in text and f"({len(METADATA)} characters)" in text
    assert METADATA[:60] not in text
    _, out, _ = run(*command, log, "--json")
    assert json.dumps(METADATA) in out


def test_short_metadata_are_shown_as_they_are(tmp_path, run):
    log = write_each(tmp_path, [commit(4365, START, metadata="x" * 60, **ABOUT)])
    _, out, _ = run("load", log)
    assert "x" * 60 in out and "characters" not in out
