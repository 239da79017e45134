"""The quizzes of the instructor kit and their answers.

The bytes and the tables are read from the quiz itself. The package or the solution of an exercise computes the answer.
"""

import re
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

import kafkagroups as kg
from kafkagroups import course
from kafkagroups.coordinator import Errors, OffsetCommit
from kafkagroups.coordinator.leader_epochs import offset_for_leader_epoch
from kafkagroups.course.exercises.catalog import EXERCISES
from kafkagroups.course.small_logs import encode_commit, encode_records
from kafkagroups.log.batch import CONTROL, TRANSACTIONAL
from kafkagroups.log.writer import LogWriter
from kafkagroups.records import consumer_group, control
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue
from kafkagroups.records.text import java_hash

ROOT = Path(__file__).parents[1]
KIT = ROOT / "docs" / "instructor"
LESSONS = sorted((ROOT / "notebooks" / "source").glob("[0-9][0-9]_*.py"))
NUMBERS = [path.stem[:2] for path in LESSONS]
MOST_LINES = 40  # So many lines fit on a printed page, with room for the answers.
CHARACTERS_IN_LINE = 95


def read_quiz(number):
    """Return the questions of a quiz by their number."""
    text = (KIT / "quiz" / f"{number}.md").read_text(encoding="utf-8")
    parts = re.split(r"^\*\*(\d+)\.\*\* ", text, flags=re.MULTILINE)[1:]
    return dict(zip(map(int, parts[::2]), parts[1::2], strict=True))


def read_answers(number):
    """Return the answer and the explanation of each question by its number."""
    text = (KIT / "answers" / f"{number}.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (\d+)\. (.+)$", text, flags=re.MULTILINE)[1:]
    return {int(n): (a, t) for n, a, t in zip(parts[::3], parts[1::3], parts[2::3], strict=True)}


def read_bytes(number, question):
    """Return the hex digits in a question, as bytes. An indented line continues the line before it."""
    text = re.sub(r"\n {7}(?=[0-9a-f]{2} )", " ", read_quiz(number)[question])
    pattern = r"(?:^|`)(?:key|value)? *((?:[0-9a-f]{2} )+[0-9a-f]{2})(?:$|`)"
    return [bytes.fromhex(line) for line in re.findall(pattern, text, re.M)]


def read_table(number, question):
    """Return the cells of the rows of a table in a question, without its head."""
    rows = re.findall(r"^\| (\d.*) \|$", read_quiz(number)[question], re.M)
    return [row.split(" | ") for row in rows]


def find_answer(number, question):
    return read_answers(number)[question][0]


def solve(name, *arguments):
    """Return what the solution of an exercise returns."""
    names = {}
    exec(EXERCISES[name].solution, names)
    return names[name](*arguments)


def write_log(folder, batches):
    """Write a log. A batch is a list of keys and values."""
    with LogWriter(folder) as log:
        for pairs in batches:
            log.append(encode_records(log.next_offset, 1_700_000_000_000, pairs))
    return folder


def test_each_lesson_has_a_quiz_and_its_answers():
    for folder in ("quiz", "answers"):
        assert sorted(path.stem for path in (KIT / folder).glob("*.md")) == NUMBERS


@pytest.mark.parametrize("number", NUMBERS)
def test_each_question_has_an_answer_with_its_number(number):
    """A quiz has five or six questions. Each answer has a reason, a typical mistake, and a section to read again."""
    questions = read_quiz(number)
    answers = read_answers(number)
    assert list(questions) == list(answers) == list(range(1, len(questions) + 1))
    assert len(questions) in (5, 6)
    for answer, explanation in answers.values():
        for part in ("Why", "Typical mistake", "Read again"):
            assert f"- **{part}:** " in explanation, answer


@pytest.mark.parametrize("number", NUMBERS)
def test_an_option_exists_and_is_explained_if_it_is_the_answer(number):
    """If a question has options, the answer is one of their letters."""
    answers = read_answers(number)
    for question, text in read_quiz(number).items():
        letters = re.findall(r"^- ([A-D]): ", text, re.M)
        if letters:
            assert answers[question][0] in letters
            assert letters == list("ABCD")[: len(letters)]


@pytest.mark.parametrize("number", NUMBERS)
def test_each_named_section_exists_in_the_lesson(number):
    source = next(path for path in LESSONS if path.stem.startswith(number)).read_text(encoding="utf-8")
    headings = re.findall(r"^# ## (.+)$", source, re.M)
    for question, (_, explanation) in read_answers(number).items():
        section = re.search(r'- \*\*Read again:\*\* "(.+)"$', explanation, re.M)[1]
        assert section in headings, question


@pytest.mark.parametrize("number", NUMBERS)
def test_a_quiz_has_a_line_for_the_name_and_fits_on_one_page(number):
    text = (KIT / "quiz" / f"{number}.md").read_text(encoding="utf-8")
    assert re.search(r"^Name: _{20,}$", text, re.M)
    lines = [line for line in text.splitlines() if line.strip("` ")]
    assert sum(1 + len(line) // CHARACTERS_IN_LINE for line in lines) <= MOST_LINES


def test_the_site_has_the_quizzes_and_not_the_answers(monkeypatch, tmp_path):
    """`tools/site.py` copies the documents for the site."""
    pytest.importorskip("sphinx")
    tool = run_path(str(ROOT / "tools" / "site.py"))
    source = tmp_path / "site-source"
    monkeypatch.setitem(tool["copy_documents"].__globals__, "SOURCE", source)
    tool["copy_documents"]()
    names = [path.relative_to(source).as_posix() for path in source.rglob("*.md")]
    assert "docs/instructor/quiz/00.md" in names
    assert [name for name in names if "answers" in name] == []


def test_00_the_partitions_of_three_groups():
    assert [kg.partition_for(group) for group in ("billing", "fraud-check", "shipping")] == [9, 9, 8]
    assert find_answer("00", 5) == "`billing` and `fraud-check`"


def test_01_a_commit_in_hex():
    record = kg.decode(*read_bytes("01", 1))
    value = record.value
    assert find_answer("01", 1) == f"`{record.key.group}`, offset {value.offset}, leader epoch {value.leader_epoch}"


def test_01_the_tombstone_of_a_group():
    record = kg.decode(*read_bytes("01", 2), None)
    assert (record.type, record.key.group, record.value) == (2, "tea", None)


def test_01_empty_metadata_can_be_read_and_null_metadata_cannot():
    key, value = read_bytes("01", 1)
    length_and_text = bytes.fromhex("00 02 6f 6b")
    assert kg.decode(key, value.replace(length_and_text, b"\x00\x00")).value.metadata == ""
    with pytest.raises(kg.InvalidRecord):
        kg.decode(key, value.replace(length_and_text, b"\xff\xff"))


def test_01_key_type_0_with_value_version_3():
    """Kafka 4.3.1 refuses this record, and 3.9.2 reads it."""
    key, value = read_bytes("01", 1)
    with pytest.raises(kg.InvalidRecord):
        kg.decode(b"\x00\x00" + key[2:], value)


def test_02_hash_and_partition():
    assert find_answer("02", 1) == str(kg.partition_for("ab", 50))
    assert java_hash("ab") == 3105
    assert find_answer("02", 2) == str(abs(-1234567) % 50)
    stays = [hash_ for hash_ in (1205, 1255) if hash_ % 50 == hash_ % 60]
    assert find_answer("02", 3) == f"Only the group with the hash {stays[0]}"
    assert len(stays) == 1
    name = "🥐tea"
    assert find_answer("02", 4) == f"{len(name.encode('utf-16-be')) // 2} steps, length {len(name.encode())}"


def test_03_the_next_batch():
    [header] = read_bytes("03", 1)
    offset = int.from_bytes(header[:8], "big")
    length = int.from_bytes(header[8:], "big")
    assert find_answer("03", 1) == f"Offset {offset}, byte {500 + 12 + length}"


def test_03_varints():
    numbers = [solve("read_varint", data, 0)[0] for data in (b"\xd2\x01", b"\x03")]
    assert find_answer("03", 2) == f"{numbers[0]} and {numbers[1]}".replace("-", "−")


def test_03_attributes_and_markers():
    """zstd is 4. The key of an abort marker has the type 0."""
    zstd = 4
    assert TRANSACTIONAL | zstd == 0x14
    assert TRANSACTIONAL | CONTROL == 0x30
    assert control.encode_control_key(control.ControlType.ABORT) == bytes(4)


def test_04_the_record_later_in_the_log_is_returned():
    script = course.CommitScript("commit 10", "confirm 10", "commit 12", "late 12", "commit 11", "confirm 11")
    assert find_answer("04", 1) == str(script.read_last_offsets()[1])


def test_04_cached_and_pending():
    script = course.CommitScript("commit 5", "confirm 5", "commit 6", "commit 7", "confirm 6")
    cached, _ = script.read_last_offsets()
    assert find_answer("04", 2) == f"{cached} is cached, 7 is pending"


def test_05_where_an_epoch_ends():
    epochs = [(0, 0), (4, 50), (7, 80)]
    starts = []
    for offset, epoch in ((60, 4), (90, 4), (70, 5)):
        _, end = offset_for_leader_epoch(epochs, 130, epoch)
        starts.append(str(min(offset, end)))
    assert find_answer("05", 1) == ", ".join(starts)


def test_05_stable_answers():
    asked = ["orders-0", "orders-1", "orders-2"]
    answers = solve("get_offsets", {"orders-0": 10}, {"orders-0", "orders-1"}, asked, True)
    texts = [f"`{answer}`" if isinstance(answer, str) else "−1" for answer in answers.values()]
    assert find_answer("05", 2) == ", ".join(texts)


def test_06_the_vote():
    lists = [part.split(", ") for part in re.findall(r"`([a-z, ]+)`", read_quiz("06")[3])]
    assert len(lists) == 3
    assert find_answer("06", 3) == f"`{solve('select_protocol', lists)}`"


def test_06_the_last_sign_of_life():
    assert find_answer("06", 1) == str(10 + 45)


def test_06_the_end_of_the_join_phase():
    """A coordinator with the rules of Kafka 3.9 gets the three JoinGroups of the question."""
    life = course.GroupLife("g", verbose=False)
    timeouts = {"a": 60, "b": 120, "c": 40}

    def join(name):
        life.join(name, session_s=200, rebalance_s=timeouts[name])

    for name in timeouts:
        join(name)
        join(name)
    life.wait(9)
    life.sync("a")
    life.sync("b")
    life.sync("c")
    assert life.read_state_name() == "Stable"
    join("a")
    life.wait(10)
    join("c")
    life.wait(89)
    assert life.read_state_name() == "PreparingRebalance"
    life.wait(1)
    join("b")
    assert life.read_state_name() == "CompletingRebalance"
    assert len(life.group.members) == 3
    assert find_answer("06", 2) == "At 100 s. No member is removed"


@pytest.fixture
def billing():
    """A group with one member that reads `orders`. It has committed offsets of two topics."""
    life = course.GroupLife("billing", verbose=False)
    life.join("billing-1")
    life.join("billing-1")
    life.wait(3)
    life.sync("billing-1")
    life.commit("billing-1", {"orders-0": 5, "orders-1": 5, "payments-0": 8})
    return life


def test_07_three_refused_commits(billing):
    [member] = billing.consumers.values()
    generation = billing.group.generation
    orders_0 = kg.TopicPartition("orders", 0)
    errors = []
    for member_id, number in (("m-9", generation), (member.member_id, generation - 1), ("", -1)):
        answer = billing.coordinator.offset_commit(
            "billing", {orders_0: OffsetCommit(9)}, generation=number, member_id=member_id
        )
        errors.append(f"`{answer.value[orders_0].name}`")
    assert find_answer("07", 1) == ", ".join(errors)


def test_07_a_wrong_partition_and_a_wrong_generation(billing):
    [member] = billing.consumers.values()
    offsets = {
        kg.TopicPartition(topic, number): OffsetCommit(9)
        for topic, number in (("orders", 0), ("orders", 1), ("orderz", 0))
    }
    counts = []
    for generation in (member.generation, member.generation - 1):
        answer = billing.coordinator.offset_commit(
            "billing", offsets, generation=generation, member_id=member.member_id
        )
        counts.append(list(answer.value.values()).count(Errors.NONE))
    assert find_answer("07", 3) == f"{counts[0]}, and {counts[1]}"


def test_09_tombstones_and_protected_topics(billing):
    """The rules of 3.9.2. The coordinator of 4.3.1 always writes the tombstone of the group, too."""
    billing.delete_offsets("orders-0", "payments-0")
    errors = billing.events[-1].response.split(", ")
    assert find_answer("09", 4) == " and ".join(f"`{error}`" for error in errors)
    billing.commit("billing-1", {"payments-0": 8})
    billing.leave("billing-1")
    count = len(billing.log_lines)
    billing.delete()
    written = billing.log_lines[count:]
    assert find_answer("09", 2).split()[0] == str(len(written))
    assert all(line.value is None for line in written)


def test_07_the_length_of_the_metadata():
    options = re.findall(r"^- ([A-C]): ([\d,]+) times `(.)`", read_quiz("07")[2], re.M)
    texts = {letter: character * int(count.replace(",", "")) for letter, count, character in options}
    assert [letter for letter, text in texts.items() if not solve("fits", text, 4096)] == [find_answer("07", 2)]


def test_08_offsets_in_transactions():
    """The solution of lesson 08 replays the table. One producer has no marker."""
    lines = []
    producers = set()
    for offset, text in read_table("08", 1):
        producer = re.search(r"producer (\d)", text)
        number = int(producer[1]) if producer else None
        kind = {"committed": "commit", "aborted": "abort"}.get(text.split()[-1], "offset")
        value = int(re.search(r"of (\d+)", text)[1]) if kind == "offset" else None
        producers ^= {number} if number else set()
        lines.append(SimpleNamespace(record_offset=int(offset), record_type=kind, value=value, producer=number))
    for line in lines:
        line.group = "g"
        line.partition = "orders-0"
    assert producers == {3}
    offset = solve("replay_transactions", lines)["g", "orders-0"]
    assert find_answer("08", 1) == f"{offset}, and `UNSTABLE_OFFSET_COMMIT`"


def test_09_the_day_of_the_deletion():
    with_member = course.find_deletion_day("3.9.2", commit_day=0, leaves_on=3, retention=7)
    simple = SimpleNamespace(state="Empty", type="", read_topics=[], state_start=0, offsets={"orders-0": (0, None)})
    days = [day for day in range(20) if solve("expired", simple, day, 7)]
    assert find_answer("09", 1) == f"`mailer` on day {with_member}, `dashboard` on day {days[0]}"


def test_10_what_remains():
    lines = read_quiz("10")[1].splitlines()
    offsets = [int(number) for number in re.findall(r"\d+", next(line for line in lines if line.startswith("offset")))]
    values = re.findall(r"([A-C])=(\d|∅)", "\n".join(lines))
    records = [
        (offset, key, None if value == "∅" else value) for offset, (key, value) in zip(offsets, values, strict=True)
    ]
    *first, last = map(str, solve("survivors", records, 6))
    assert find_answer("10", 1) == f"{', '.join(first)} and {last}"


def test_10_passes_and_horizons():
    """A horizon is the time of a pass plus 24 hours. The first later pass at or after it removes the record."""
    passes = (6, 20, 29, 31, 60)
    removed_by = next(number for number, hour in enumerate(passes, 1) if hour >= passes[0] + 24)
    assert find_answer("10", 3) == str(removed_by)
    passes = (0, 10, 20, 40)
    removed_by = next(number for number, hour in enumerate(passes, 1) if hour >= passes[1] + 24)
    assert find_answer("10", 4) == str(removed_by)


def test_11_both_coordinators_load_the_log(tmp_path):
    """Record 3 is the tombstone of a group without the tombstone of its offset."""
    group = kg.encode(kg.Record(2, GroupMetadataKey("g"), GroupMetadataValue("consumer", 1, "range", None, 0, ()), 3))
    deleted = kg.encode(kg.Record(2, GroupMetadataKey("g"), None, None))
    batches = [[encode_commit("g", 5)], [group], [encode_commit("g", 7)], [deleted]]
    folder = write_log(tmp_path / "__consumer_offsets-0", batches)
    partition = kg.TopicPartition("t", 0)
    found = {}
    for coordinator in ("new", "classic"):
        loaded = kg.load(folder, coordinator=coordinator).get("g")
        found[coordinator] = loaded.offsets[partition].offset if loaded else "−1"
    assert find_answer("11", 2) == f"4.x: {found['new']}. Classic: {found['classic']}"


def test_11_and_12_seconds():
    per_second = 0.4
    assert find_answer("11", 1) == f"{(1.2 + 0.4 + 2.0) / per_second:.0f}"
    assert find_answer("11", 3) == str(9 + 45)
    assert find_answer("12", 1) == f"{10 * 0.4 / per_second:.0f} seconds, and {2 * 0.4 / per_second:.0f} seconds"
    assert find_answer("12", 3) == str(1_000_000 // 250_000)
    assert find_answer("12", 4) == f"{18 / (1 / 5 - 1 / 50):.0f}"


def test_12_merged_parts():
    left = {"k1": (3, 10), "k2": (5, None)}
    right = {"k1": (7, None), "k3": (6, 4)}
    merged = solve("merge", left, right)
    assert find_answer("12", 2) == ", ".join(f"`{key}` = {value}" for key, (_, value) in merged.items() if value)
    assert merged["k2"] == (5, None)


def test_13_a_current_assignment_in_hex():
    record = kg.decode(*read_bytes("13", 1))
    assert find_answer("13", 1) == f"Type {record.type}, epoch {record.value.member_epoch}, state {record.value.state}"


def test_13_the_states_of_three_groups():
    states = []
    for line in re.findall(r"^\d\. group epoch (.+)$", read_quiz("13")[2], re.M):
        group_epoch, assignment_epoch, *members = map(int, re.findall(r"\d+", line))
        pairs = list(zip(members[::2], members[1::2], strict=True))
        states.append(solve("group_state", group_epoch, assignment_epoch, pairs))
    assert find_answer("13", 2) == ", ".join(states)


def test_13_the_order_of_tombstones(tmp_path):
    """Only the order of one partition loads."""
    member = consumer_group.ConsumerGroupMemberMetadataValue(client_id="c", client_host="/h")
    target = consumer_group.ConsumerGroupTargetAssignmentMemberValue()
    current = consumer_group.ConsumerGroupCurrentMemberAssignmentValue(2, 1, 0, (), ())
    keys = {
        5: consumer_group.ConsumerGroupMemberMetadataKey("g", "m"),
        3: consumer_group.ConsumerGroupMetadataKey("g"),
        7: consumer_group.ConsumerGroupTargetAssignmentMemberKey("g", "m"),
        6: consumer_group.ConsumerGroupTargetAssignmentMetadataKey("g"),
        8: consumer_group.ConsumerGroupCurrentMemberAssignmentKey("g", "m"),
    }
    values = {
        5: member,
        3: consumer_group.ConsumerGroupMetadataValue(2),
        7: target,
        6: consumer_group.ConsumerGroupTargetAssignmentMetadataValue(2),
        8: current,
    }
    created = [kg.encode(kg.Record(number, keys[number], values[number], 0)) for number in keys]
    loaded = []
    for letter, order in re.findall(r"^- ([A-C]): ([\d, ]+)$", read_quiz("13")[4], re.M):
        deleted = [kg.encode(kg.Record(int(number), keys[int(number)], None, None)) for number in order.split(", ")]
        folder = write_log(tmp_path / letter / "__consumer_offsets-0", [created, *([pair] for pair in deleted)])
        if not kg.load(folder, coordinator="new").failed:
            loaded.append(letter)
    assert loaded == [find_answer("13", 4)]


def test_14_records_in_a_day():
    assert find_answer("14", 2) == f"{40 * 24 * 60 * 60 // 5:,}"
    rows = re.findall(r"^ ([a-z-]+) +(\d+) +\d+ +(\d+)$", read_quiz("14")[1], re.M)
    largest = max(rows, key=lambda row: int(row[1]))[0]
    assert find_answer("14", 1) == f"`{largest}`, {sum(int(row[2]) for row in rows)} records"
