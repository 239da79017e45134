"""`kg.report` and `kafkagroups report`: one page, in which names are text, and which agrees with `load` and `stats`."""

import json
import re
import shlex
from datetime import UTC, datetime
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import stats
from tests.captured import captured
from tests.groups.test_load_runs import DATA
from tests.handmade import START, commit_record, write_batches
from tests.html_report.hostile_names import NAMES, write_hostile_log

ELECTION = Path(__file__).parents[1] / "history" / "unclean_election"
VOID = {"meta", "br"}
ALLOWED = {
    "html": {"lang"},
    "meta": {"charset", "http-equiv", "content", "name"},
    "nav": {"aria-label"},
    "a": {"href"},
    "h3": {"id"},
    "td": {"data-label"},
    "th": {"scope"},
    "svg": {"role", "viewbox", "preserveaspectratio", "aria-label"},
    "rect": {"x", "y", "width", "height"},
}
ALLOWED |= {tag: {"class"} for tag in ("section", "p", "span", "dl")}
PLAIN = (
    "head title body style h1 h2 h4 main footer div ul li dt dd table caption thead tbody tr details summary pre code "
)
PLAIN += "b strong"
ALLOWED |= {tag: set() for tag in f"{PLAIN} code b strong".split()}
"""Every element of a report, and every attribute that it may have. None of them can run a script or load anything."""


class Page(HTMLParser):
    """Reads a page strictly: each element is closed in order, and only known elements and attributes exist."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.open = []
        self.texts = []
        self.ids = []
        self.references = []
        self.remedies = 0
        self.feed(html)
        self.close()
        assert self.open == []
        self.text = "".join(self.texts)

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert set(names) <= ALLOWED[tag], (tag, attrs)
        assert len(names) == len(set(names))
        attributes = dict(attrs)
        self.ids += [attributes["id"]] if "id" in attributes else []
        if "href" in attributes:
            assert attributes["href"].startswith("#")
            self.references.append(attributes["href"][1:])
        self.remedies += attributes.get("class") == "remedy"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")

    def unknown_decl(self, data):
        raise AssertionError(f"a declaration: {data}")


def check(html):
    """Check what holds for every page, and return it."""
    assert html.startswith("<!DOCTYPE html>\n<html lang=")
    page = Page(html)
    assert len(page.ids) == len(set(page.ids))
    assert set(page.references) <= set(page.ids)
    assert re.search(r"default-src 'none'; style-src 'sha256-[A-Za-z0-9+/=]+'; base-uri", html)
    assert html.count("<style>") == 1 and "url(" not in html and "@import" not in html
    assert all(character == "\n" or character.isprintable() or character == "\u202f" for character in html)
    return page


def captured_runs():
    runs = captured("runs") / "runs"
    return sorted(path for path in runs.glob("*/*") if path.is_dir() and "craft" not in path.parent.name)


def test_names_in_a_log_are_text(tmp_path, run):
    """ISSUE: HTML, terminal escapes, right-to-left marks, quotes of a shell and 249 characters are harmless."""
    log = write_hostile_log(tmp_path)
    status, out, err = run("report", log, "--out", tmp_path / "report.html")
    assert (status, err) == (0, "") and out.endswith(f"report.html: {len(NAMES) - 1} findings.\n")
    page = check((tmp_path / "report.html").read_text(encoding="utf-8"))
    commands = 0
    for name in NAMES:
        visible = "".join(
            character if character.isprintable() else character.encode("unicode_escape").decode() for character in name
        )
        assert visible in page.text
        # In a command, the name is one word of the shell.
        commands += shlex.quote(f"--group={visible}") in page.text
    assert commands == 12


def test_the_path_is_text_too(tmp_path):
    """A folder can have any name, and its name is in the head of the page and in commands."""
    folder = tmp_path / "<img src=x onerror=alert(1)> it's"
    page = check(kg.report(write_hostile_log(folder)).html)
    assert "<img src=x onerror=alert(1)> it's" in page.text
    assert "<img src=x onerror=alert(1)> it'\"'\"'s/__consumer_offsets-0'" in page.text


@pytest.mark.thorough
def test_logs_of_healthy_brokers_have_no_remedy():
    """The findings of a page are those of `stats` and `check`, each with one remedy. Healthy logs have none."""
    healthy = 0
    for path in [DATA / "1.0.1", DATA / "3.9.2", DATA / "4.3.1", *captured_runs()]:
        version = path.name if path.parent == DATA else path.parent.name
        coordinator = "new" if version >= "4" else "classic"
        report = kg.report(path, coordinator=coordinator)
        found = {(one.partition, one.kind) for one in stats(path, coordinator=coordinator).findings}
        found |= {(one.partition, one.kind) for one in kg.check(path, coordinator=coordinator).findings}
        assert {(one.partition, one.kind) for one in report.findings} == found
        page = check(report.html)
        assert page.remedies == len(report.findings)
        assert ("No findings: the log itself needs no remedy." in page.text) == (not report.findings)
        healthy += not report.findings
    assert healthy >= 16  # In five runs of the cleaner, a tool makes eight groups skip records.


def read_tables(html, caption):
    """Return the cells of each table with a caption, row by row."""
    bodies = [part.split("<tbody>")[1].split("</tbody>")[0] for part in html.split(f"<caption>{caption}</caption>")[1:]]
    rows_of_bodies = [body.split("</tr>")[:-1] for body in bodies]
    return [
        [[unescape(cell) for cell in re.findall("<td [^>]*>(.*?)</td>", row)] for row in rows]
        for rows in rows_of_bodies
    ]


def format_time(time_ms):
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def test_the_committed_offsets_are_those_that_a_broker_answered():
    """answers.json: what a broker returned after a restart. The times are those of `load`."""
    html = kg.report(DATA / "4.3.1").html
    groups = kg.load(DATA / "4.3.1")
    answers = json.loads((DATA / "4.3.1" / "answers.json").read_text())["offsets"]
    expected = []
    for group, offsets in answers.items():
        rows = {name: [str(answer["offset"]), answer["metadata"]] for name, answer in offsets.items()}
        for key, offset in groups[group].offsets.items() if rows else ():
            rows[str(key)] += [format_time(offset.commit_timestamp), str(offset.record_offset)]
        expected += [rows] if rows else []
    tables = [{row[0]: [row[1], row[4], row[2], row[3]] for row in table} for table in read_committed(html)]
    assert sorted((table for table in tables if table), key=str) == sorted(expected, key=str)


def read_committed(html):
    """Return the rows of each group's table that have a committed offset."""
    return [[row for row in table if row[1] != "-"] for table in read_tables(html, "Committed offsets")]


def test_pending_offsets_stand_next_to_the_committed_ones():
    """acts.json of 4.3.1: fraud-check's last transaction stays open, with 40 and 41."""
    html = kg.report(DATA / "4.3.1").html
    pending = [[row for row in table if row[5] != "-"] for table in read_tables(html, "Committed offsets")]
    (rows,) = [rows for rows in pending if rows]
    assert [(row[0], row[1], row[5]) for row in rows] == [("orders-0", "-", "40"), ("payments-1", "31", "41")]


def write_commits(folder, commits, partition=0):
    """Write a partition with a batch for each commit: group, topic partition, offset, and ms after START."""
    batches = []
    for group, number, offset, time in commits:
        batches.append((time, [commit_record(offset, number, group=group, time=START + time)]))
    return write_batches(folder, batches, partition)


def test_a_table_of_many_offsets_says_how_to_see_all(tmp_path):
    """A group with one more offset than a table shows, and a group id that a shell would read."""
    group = "it's $(all)"
    path = write_commits(tmp_path, [(group, number, 1, 0) for number in range(21)])
    html = kg.report(path, kafka="4.1.1").html
    text = check(html).text
    (table,) = read_tables(html, "Committed offsets")
    assert [row[0] for row in table] == [f"t-{number}" for number in range(20)]
    assert "Only the first 20 of 21 rows are shown." in text
    line = text[text.index("Only the first 20") :].partition("kafkagroups ")[2].partition("--kafka 4.1.1")[0]
    assert shlex.split(line) == ["load", str(path), f"--group={group}", "--all", "--coordinator", "new"]


@pytest.fixture
def widen(tmp_path):
    """Return a function that widens a topic from 3 to 5 partitions, which moves a group from partition 1 to 4.

    The group commits in both, in the new one a time later (ms). It returns the group and the topic's path.
    """

    def write(time_ms):
        homes = ((kg.partition_for(name, 3), kg.partition_for(name, 5), name) for name in map(str, range(1000)))
        group = next(name for old, new, name in homes if (old, new) == (1, 4))
        commits = {1: [(group, 0, 7, 0), (group, 1, 8, 0)], 4: [(group, 0, 9, time_ms)]}
        for number in range(5):
            write_commits(tmp_path / "a topic", commits.get(number, []), number)
        return group, tmp_path / "a topic"

    return write


@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_a_topic_that_was_widened_shows_the_old_and_the_new_positions(widen, coordinator, run):
    """Kafka's rule (GroupMetadataManager.partitionFor): with 5 partitions instead of 3, the group has another home.

    The text of `stats` shows at most --top positions, and then says how to see all of them.
    """
    group, topic = widen(60_000)
    assert "The topic's partition count was changed from" in check(kg.report(topic, coordinator=coordinator).html).text

    def ask(*options):
        _, out, _ = run("stats", topic, "--coordinator", coordinator, *options)
        return out, [line.split() for line in out.splitlines() if line.split()[:1] == [group] and " t-" in line]

    rows = [[group, "t-1", "8", "-", "old"], [group, "t-0", "7", "9", "new"]]
    out, shown = ask()
    assert shown == rows
    assert "positions are shown" not in out and all(len(line) <= 80 for line in out.splitlines())
    out, shown = ask("--top", "1")
    assert shown == rows[:1] and "Only 1 of 2 positions are shown: --top 2 shows all." in " ".join(out.split())
    assert json.loads(ask("--json")[0])["moved_offsets"] == [
        {"group": group, "topic_partition": "t-0", "old": 7, "new": 9, "newest": "new"},
        {"group": group, "topic_partition": "t-1", "old": 8, "new": None, "newest": "old"},
    ]


def test_a_topic_that_was_widened_at_an_impossible_time(widen, run):
    """A record can contain any time. The year of this one has nine digits, and no calendar has it."""
    far = 2**62
    _, topic = widen(far - START)
    assert f"at the latest at {far} ms since 1970" in check(kg.report(topic).html).text
    for command in ("stats", "check", "load"):
        status, _, err = run(command, topic)
        assert (status, err) == (0, "")


def test_what_was_assumed_about_the_partition_count_is_said():
    """An assumed count is never silent. The folder has partitions 8 to 38 of 50."""
    text = check(kg.report(DATA / "3.9.2", kafka="3.9.2").html).text
    assert "Missing in this folder: at least partitions 0 to 7" in text
    text = check(kg.report(DATA / "3.9.2", kafka="3.9.2", partitions=10).html).text
    assert "the topic has 10 partitions, but the path has partitions 12, 21, 22 and 2 more" in text


def test_a_damaged_and_a_failing_log_show_what_is_lost(tmp_path, run):
    """Exit code 1, as in `load`. The page names the damage, and the groups behind it."""
    source = DATA / "3.9.2" / "__consumer_offsets-9"
    folder = tmp_path / source.name
    folder.mkdir()
    segment = sorted(source.glob("*.log"))[0]
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    (folder / segment.name).write_bytes(content)
    status, _, err = run("report", folder, "--coordinator", "classic", "--out", tmp_path / "report.html")
    assert status == 1 and "the log ends here" in err
    damage = kg.load(folder, "classic").partitions[9].damage
    text = check((tmp_path / "report.html").read_text(encoding="utf-8")).text
    assert damage.reason in text
    for group in damage.groups_after:
        assert group in text


def test_two_replicas_that_fork_are_compared(tmp_path, run):
    """An unclean election of real brokers (tests/history/test_replicas.py says what they answered and truncated).

    The page has the text of `diff`; that of two clusters has none.
    """
    paths = [ELECTION / "old-leader", ELECTION / "new-leader"]
    out = tmp_path / "report.html"
    assert run("report", *paths, "--out", out)[0] == 0
    text = check(out.read_text(encoding="utf-8")).text
    assert f"kafkagroups diff {paths[0]} {paths[1]} " in text
    assert run("diff", *paths)[1] in text and "b is the newer replica: its last leader epoch is 2." in text
    assert "lost: only a has it (record 7)" in text and "healed, now record 5 on b" in text
    assert run("report", DATA / "3.9.2", DATA / "4.3.1", "--out", out)[0] == 0
    text = check(out.read_text(encoding="utf-8")).text
    assert "kafkagroups diff" in text and "the replicas fork" not in text and "lost:" not in text


def test_the_activity_has_a_column_for_each_part_of_the_time(tmp_path):
    """48 minutes in 48 parts: one commit in the first minute, and three in the last one."""
    minutes = [0, 47, 47.5, 48 - 1 / 60_000]
    path = write_commits(tmp_path, [("g", 0, number, round(60_000 * minute)) for number, minute in enumerate(minutes)])
    html = kg.report(path).html
    check(html)
    columns = re.findall('<rect x="([0-9]+)" y="[0-9.]+" width="9" height="([0-9.]+)">\\s*<title>(.*?)</title>', html)
    assert len(columns) == 48 and [(x, height[:5], said) for x, height, said in columns if float(height)] == [
        ("0", "33.33", f"From {format_time(START)}: 1.0 records per minute"),
        ("470", "100.0", f"From {format_time(START + 47 * 60_000)}: 3.0 records per minute"),
    ]
    assert "at most 3.0" in html
    assert "at most 0.0, from - to -." in " ".join(kg.report(write_commits(tmp_path / "empty", [])).html.split())


def test_several_paths_are_several_logs_and_bad_ones_are_named(tmp_path, run):
    """A bad PATH does not stop the others, and the exit code is the worst."""
    out = tmp_path / "report.html"
    status, _, err = run("report", DATA / "3.9.2", tmp_path / "none", DATA / "1.0.1", "--out", out, "--kafka", "3.9.2")
    assert status == 2 and err.count("\n") == 1 and "none" in err
    text = check(out.read_text(encoding="utf-8")).text
    assert str(DATA / "3.9.2") in text and str(DATA / "1.0.1") in text
    out.unlink()
    assert run("report", tmp_path / "none", "--out", out)[0] == 2
    assert not out.exists()


def test_the_page_never_replaces_a_segment(tmp_path, run):
    """--out that is a folder, a segment, or in a folder that does not exist: one line, exit code 2."""
    log = write_hostile_log(tmp_path)
    (segment,) = log.glob("*.log")
    before = segment.read_bytes()
    for out in (segment, tmp_path, tmp_path / "none" / "report.html"):
        status, _, err = run("report", log, "--out", out)
        assert status == 2 and err.count("\n") == 1
    assert segment.read_bytes() == before


@pytest.mark.slow
def test_the_page_of_a_large_log_is_small(tmp_path, run):
    """Tables are cut, and say so: 40,000 records of 3,000 groups give a page below 1 MB."""
    options = "--records 40k --groups 3000 --transactional 0.3 --partitions 4"
    run("synth", "--out", tmp_path / "log", *options.split())
    html = kg.report(tmp_path / "log").html
    page = check(html)
    assert len(html) < 1_000_000
    assert re.search("Only the first 100 of [0-9]{4} groups are shown", page.text)


def test_a_page_without_a_story_says_what_it_looked_for(tmp_path):
    """A group can rebalance again and again although nothing went back, was deleted, or is pending."""
    folder = write_commits(tmp_path, [("g", 0, 1, 0), ("g", 0, 2, 5000)])
    text = " ".join(check(kg.report(folder).html).text.split())
    assert "This page looks for offsets that went back, deletions and open transactions, and found none." in text
    assert "Rebalances, aborted transactions and positions that stand still are in kafkagroups timeline." in text
