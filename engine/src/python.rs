//! The interface to Python: `read` folds a log, `Records` reads its records as columns.

use crate::batch::NO_PRODUCER_ID;
use crate::columns::{uuid_text, Table};
use crate::explain::{BatchFinder, Hole};
use crate::fold::{fold_log, Fold, Rules, NO_RECORD};
use crate::follow::{Count, Example, Extent, Fate, Follow, OpenTransaction};
use crate::records::{RecordReader, NAMES};
use crate::source::{Batches, Bytes, Place, Segment, Stopped, Zeros};
use crate::table::{Entry, Extra, HAS_EXPIRE, HAS_TOPIC_ID, NONE};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;

/// The number of this interface. It changes with every change that Python code can notice.
const INTERFACE: u32 = 5;

pyo3::create_exception!(kafkagroups_engine, HandOver, pyo3::exceptions::PyException);

/// A segment as Python describes it: a path or a buffer, and the range of its bytes.
type SegmentArgument<'py> = (Bound<'py, PyAny>, i64, u64, Option<u64>);
fn take_segments(segments: Vec<SegmentArgument>) -> PyResult<Vec<Segment>> {
    let mut taken = Vec::with_capacity(segments.len());
    for (source, base_offset, start, end) in segments {
        let bytes = match PyBuffer::<u8>::get(&source) {
            Ok(buffer) => Bytes::Loader(Box::new(move || {
                Python::attach(|py| buffer.to_vec(py)).map_err(|error| std::io::Error::other(error.to_string()))
            })),
            Err(_) => Bytes::File(source.extract::<PathBuf>()?),
        };
        taken.push(Segment { bytes, base_offset, start, end });
    }
    Ok(taken)
}

/// A panic, which no log should cause, becomes an error of Python.
fn guarded<T>(work: impl FnOnce() -> T) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work))
        .map_err(|_| PyRuntimeError::new_err("the native engine has a defect: please report it, with the log"))
}

fn without_gil<T: Send>(py: Python, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    py.detach(|| guarded(work))
}

fn to_error(stopped: Stopped, error: Option<PyErr>) -> PyErr {
    match (stopped, error) {
        (_, Some(error)) => error,
        (Stopped::HandOver(place, reason), _) => HandOver::new_err((place.segment, place.position, reason)),
        (Stopped::Failed(place, error), _) => {
            let number = error.raw_os_error();
            PyOSError::new_err((number, error.to_string(), place.segment))
        }
        (Stopped::Interrupted, _) => PyRuntimeError::new_err("interrupted"),
    }
}

type Fates<'py> = PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>;

/// A log that was folded.
#[pyclass(frozen)]
struct Reading {
    #[pyo3(get)]
    batches: u64,
    #[pyo3(get)]
    records: u64,
    #[pyo3(get)]
    next_offset: i64,
    #[pyo3(get)]
    zeros: Option<Zeros>,
    /// Where the log has ended because of bytes that are no batch of magic 2, or have a wrong checksum.
    #[pyo3(get)]
    damage: Option<(usize, u64)>,
    fold: Fold,
    /// The entries with a committed offset, sorted by group; where those of each group begin is in `starts`.
    sorted: Vec<u32>,
    starts: Vec<usize>,
}

impl Reading {
    fn sort(&mut self) {
        self.fold.others.rows.sort_by_key(|row| row.number);
        let keys = &self.fold.keys;
        let committed = || keys.entries.iter().zip(0..).filter(|(entry, _)| entry.record_offset != NONE);
        let mut starts = vec![0; keys.groups.count() + 1];
        for (entry, _) in committed() {
            starts[keys.group_of(entry) as usize + 1] += 1;
        }
        for group in 0..keys.groups.count() {
            starts[group + 1] += starts[group];
        }
        let mut next = starts.clone();
        self.sorted = vec![0; starts[keys.groups.count()]];
        for (entry, number) in committed() {
            let place = &mut next[keys.group_of(entry) as usize];
            self.sorted[*place] = number;
            *place += 1;
        }
        self.starts = starts;
    }

    fn entries_of(&self, group: u32) -> &[u32] {
        let group = group as usize;
        &self.sorted[self.starts[group]..self.starts[group + 1]]
    }

    /// Commits as columns: a list of parts of at most `max_rows` rows or `max_bytes` bytes of texts. Each commit is its
    /// entry, what few commits have, its metadata and its producer.
    fn commit_columns<'a, 'py>(
        &self,
        py: Python<'py>,
        commits: impl Iterator<Item = (Entry, &'a Extra, &'a [u8], i64)>,
        max_rows: usize,
        max_bytes: usize,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let mut parts = Vec::new();
        let mut table = Table::default();
        let mut bytes = 0;
        for (entry, extra, metadata, producer) in commits {
            let (group, topic) = self.fold.keys.group_and_topic(entry.name);
            let topic_id = (entry.flags & HAS_TOPIC_ID != 0).then(|| uuid_text(&extra.topic_id));
            table.column().text(Some(group.as_bytes()));
            table.column().text(Some(topic.as_bytes()));
            table.column().int32(Some(entry.partition));
            table.column().int64(Some(entry.offset));
            table.column().text(Some(metadata));
            table.column().int64(Some(entry.commit_time));
            table.column().int32(Some(entry.leader_epoch));
            table.column().int64((entry.flags & HAS_EXPIRE != 0).then_some(extra.expire_time));
            table.column().text(topic_id.as_ref().map(|id| id.as_slice()));
            table.column().int64(Some(entry.record_offset));
            // The new coordinator does not compare batches.
            let is_classic = self.fold.rules.is_classic;
            table.column().int64(Some(if is_classic { entry.batch_offset } else { entry.record_offset }));
            table.column().int64(Some(producer));
            table.end_row();
            bytes += group.len() + topic.len() + metadata.len();
            if table.rows == max_rows || bytes >= max_bytes {
                parts.push(to_dict(py, &COMMIT_NAMES, &std::mem::take(&mut table))?);
                bytes = 0;
            }
        }
        if table.rows > 0 {
            parts.push(to_dict(py, &COMMIT_NAMES, &table)?);
        }
        Ok(parts)
    }

    fn describe<'py>(&self, py: Python<'py>, by_topic: bool) -> PyResult<Bound<'py, PyDict>> {
        let totals = PyDict::new(py);
        let Some(follow) = &self.fold.follow else {
            return Ok(totals);
        };
        let groups = &self.fold.keys.group_of_name;
        let row_of = |name: usize| if by_topic { name } else { groups[name] as usize };
        let mut counts = vec![[[0i64; 7]; 2]; if by_topic { groups.len() } else { self.fold.keys.groups.count() }];
        for (name, by_type) in follow.names.iter().enumerate() {
            for (count, total) in counts[row_of(name)].iter_mut().zip(by_type) {
                count.iter_mut().zip(total).for_each(|(count, total)| *count += total);
            }
        }
        let committed = self.sorted.iter().map(|entry| (*entry, follow.live[*entry as usize], 3));
        let pending = self.fold.pending.iter().map(|commit| (commit.entry, commit.live, 5));
        for (entry, live, column) in committed.chain(pending) {
            let name = self.fold.keys.entries[entry as usize].name as usize;
            let count = &mut counts[row_of(name)][live.record_type as usize];
            count[column] += 1;
            count[column + 1] += live.bytes;
        }
        let mut rows = Vec::new();
        for (row, by_type) in counts.iter().enumerate() {
            let group = if by_topic { groups[row] } else { row as u32 };
            let topic = by_topic.then(|| self.fold.keys.group_and_topic(row as u32).1);
            let used = by_type.iter().enumerate().filter(|(_, count)| count[0] > 0);
            rows.extend(used.map(|(record_type, count)| (group, topic, record_type, count.to_vec())));
        }
        totals.set_item("rows", rows)?;
        let other_row = |(key, count): (&(Option<u32>, i16), &Count)| (key.0, key.1, *count);
        let others: Vec<_> = follow.other_counts.iter().map(other_row).collect();
        totals.set_item("other_rows", others)?;
        let live: Vec<_> = follow
            .group_records
            .iter()
            .flat_map(|(group, records)| records.newest.iter().map(|(key, live)| (*group, key.0, live.bytes)))
            .collect();
        totals.set_item("live_group_records", live)?;
        let ids: Vec<_> = (0..self.fold.keys.groups.count() as u32).map(|group| self.group_text(group)).collect();
        totals.set_item("group_ids", ids)?;
        totals.set_item("segments", &follow.segments)?;
        totals.set_item("control", follow.control)?;
        totals.set_item("markers", follow.markers)?;
        let times = (follow.first_time, follow.last_time);
        totals.set_item("times", (times.0 <= times.1).then_some(times))?;
        let groups_of = |open: &OpenTransaction| -> Vec<u32> { open.groups.iter().copied().collect() };
        let open_row = |(id, open): (&i64, &OpenTransaction)| (*id, open.first_offset, open.since_ms, groups_of(open));
        let open: Vec<_> = follow.open.iter().map(open_row).collect();
        totals.set_item("open_transactions", open)?;
        totals.set_item("watched_groups", follow.watched.iter().copied().collect::<Vec<u32>>())?;
        totals.set_item("time_steps", &follow.time_steps)?;
        let bytes = |data: &Vec<u8>| PyBytes::new(py, data);
        let example = |(key, value, flag): &Example| (bytes(key), value.as_ref().map(bytes), *flag);
        let examples: Vec<_> = follow.examples.iter().map(example).collect();
        totals.set_item("examples", examples)?;
        let replacements: Vec<_> = follow
            .replacements
            .iter()
            .map(|(offset, time, key, value, members)| (*offset, *time, bytes(key), bytes(value), members.clone()))
            .collect();
        totals.set_item("static_replacements", replacements)?;
        let extent_row = |(group, extent): (u32, &Option<Extent>)| {
            let extent = extent.as_ref()?;
            let times = (extent.first_ms <= extent.last_ms).then_some((extent.first_ms, extent.last_ms));
            Some((group, extent.first, extent.last, extent.records, times))
        };
        let extents: Vec<_> = (0..).zip(&follow.extents).filter_map(extent_row).collect();
        totals.set_item("extents", extents)?;
        Ok(totals)
    }

    fn decide<'py>(&self, py: Python<'py>, answers: Vec<(u8, u8, u8, bool)>) -> Fates<'py> {
        let Some(follow) = &self.fold.follow else {
            return Err(PyRuntimeError::new_err("the log was not followed"));
        };
        let mut fates = follow.fates.clone();
        let mut by = follow.by.clone();
        for entry in &self.sorted {
            let group = self.fold.keys.group_of(&self.fold.keys.entries[*entry as usize]);
            let (fate, _, _, is_read) = answers[group as usize];
            let number = follow.live[*entry as usize].number as usize;
            fates[number] = fate;
            if fate == Fate::Hidden as u8 {
                by[number] = follow.group_records.get(&group).and_then(|records| records.tombstone).unwrap_or(NONE);
            } else if fate == Fate::Ignored as u8 && is_read {
                by[number] = NONE;
            }
        }
        for commit in self.fold.pending.iter() {
            let group = self.fold.keys.group_of(&self.fold.keys.entries[commit.entry as usize]);
            fates[commit.live.number as usize] = answers[group as usize].1;
        }
        for (group, records) in &follow.group_records {
            for live in records.newest.values() {
                fates[live.number as usize] = answers[*group as usize].2;
            }
        }
        let undecided = fates.iter_mut().filter(|fate| **fate == Fate::Undecided as u8);
        undecided.for_each(|fate| *fate = Fate::Ignored as u8);
        let by: Vec<u8> = by.iter().flat_map(|offset| offset.to_le_bytes()).collect();
        Ok((PyBytes::new(py, &fates), PyBytes::new(py, &by)))
    }

    fn group_text(&self, group: u32) -> Option<&str> {
        std::str::from_utf8(self.fold.keys.groups.get(group)).ok()
    }
}

#[pymethods]
impl Reading {
    /// For each group with offset records: its number, its id, the offset of its newest commit (-1: it has only
    /// tombstones), and how many offsets it has.
    fn groups(&self) -> Vec<(u32, &str, i64, usize)> {
        let with_offsets = (0..).zip(&self.fold.newest_commit).filter(|(_, newest)| **newest != NO_RECORD);
        let row = |(group, newest): (u32, &i64)| {
            (group, self.group_text(group).unwrap_or(""), *newest, self.entries_of(group).len())
        };
        with_offsets.map(row).collect()
    }

    /// The pending commits as columns, in parts as those of `offset_columns`.
    fn pending_columns<'py>(
        &self,
        py: Python<'py>,
        max_rows: usize,
        max_bytes: usize,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let commits = self.fold.pending.iter().map(|commit| {
            let value = &commit.value;
            let entry = Entry {
                record_offset: commit.record_offset,
                batch_offset: commit.batch_offset,
                offset: value.offset,
                commit_time: value.commit_time,
                leader_epoch: value.leader_epoch,
                flags: value.flags,
                ..self.fold.keys.entries[commit.entry as usize]
            };
            (entry, &value.extra, &value.metadata[..], commit.producer)
        });
        guarded(|| self.commit_columns(py, commits, max_rows, max_bytes))?
    }

    /// At most `count` of the records that are not offset records, from the index `start` on, in the order of the log:
    /// offset, the newest commit of the group since the record before (-1: none), key, value, and whether the record is
    /// a plain group record.
    #[allow(clippy::type_complexity)]
    fn other_records<'py>(
        &self,
        py: Python<'py>,
        start: usize,
        count: usize,
    ) -> Vec<(i64, i64, Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>, bool)> {
        let rows = self.fold.others.rows.iter().skip(start).take(count);
        rows.map(|row| {
            let value = row.value.as_ref().map(|value| PyBytes::new(py, value));
            (row.offset, row.commit_before, PyBytes::new(py, &row.key), value, row.is_plain)
        })
        .collect()
    }

    /// The committed offsets of some groups as columns: a list of parts of at most `max_rows` rows or `max_bytes`
    /// bytes of texts.
    fn offset_columns<'py>(
        &self,
        py: Python<'py>,
        groups: Vec<u32>,
        max_rows: usize,
        max_bytes: usize,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let keys = &self.fold.keys;
        let commits = groups.iter().flat_map(|group| self.entries_of(*group)).map(|number| {
            let entry = keys.entries[*number as usize];
            (entry, &keys.extras[*number as usize], keys.metadata_of(&entry), NO_PRODUCER_ID)
        });
        guarded(|| self.commit_columns(py, commits, max_rows, max_bytes))?
    }

    /// Where the batches begin that `read` was asked for: the segment, the position, the size, and the hole
    /// before; and the hole after the last one.
    #[allow(clippy::type_complexity)]
    fn found_batches(&self) -> (Vec<(usize, u64, usize, Option<Hole>)>, Option<Hole>) {
        let Some(finder) = &self.fold.finder else {
            return (Vec::new(), None);
        };
        let row = |(place, size, hole): &(Place, usize, _)| (place.segment, place.position, *size, *hole);
        let rows = finder.found.iter().map(row).collect();
        (rows, finder.hole)
    }

    /// What was noted while the log was followed. `rows` has a row for each group or name and record type: the number
    /// of the group, the topic (None unless `by_topic`), the type, records, bytes, tombstones, then the records and
    /// bytes of committed and of pending offsets.
    fn totals<'py>(&self, py: Python<'py>, by_topic: bool) -> PyResult<Bound<'py, PyDict>> {
        guarded(|| self.describe(py, by_topic))?
    }

    /// Decide the remaining fates. `answers` has for each group of `totals()["group_ids"]`: the fates of its committed
    /// offsets, pending commits and group records, as numbers, and whether the coordinator has read its records.
    /// Return the number of each record's fate and the offset of the record that decided it (-1: none), as buffers.
    fn settle<'py>(&self, py: Python<'py>, answers: Vec<(u8, u8, u8, bool)>) -> Fates<'py> {
        guarded(|| self.decide(py, answers))?
    }
}

/// The columns of commits, in this order.
#[rustfmt::skip]
const COMMIT_NAMES: [&str; 12] = [
    "group", "topic", "topic_partition", "committed_offset", "metadata", "commit_timestamp_ms", "leader_epoch",
    "expire_timestamp_ms", "topic_id", "record_offset", "batch_offset", "producer_id",
];

/// Columns for Python: for each one its bits of validity (None: no value is null), the ends of its texts (None for
/// numbers), and its numbers or texts; and `rows`, their number.
fn to_dict<'py>(py: Python<'py>, names: &[&str], table: &Table) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("rows", table.rows)?;
    for (name, column) in names.iter().zip(&table.columns) {
        let valid = (column.nulls > 0).then(|| PyBytes::new(py, &column.valid));
        let ends = (!column.ends.is_empty()).then(|| PyBytes::new(py, &column.ends));
        dict.set_item(name, (valid, ends, PyBytes::new(py, &column.data)))?;
    }
    Ok(dict)
}

/// Fold the segments of one partition. `follow`: 0 only loads, 1 also counts, 2 also keeps the fate of each record.
/// The batches of `groups`, or those of `producers`, are found. `progress` is called with the number of bytes that were read.
///
/// Raise HandOver(segment, position, reason) if the log is unusual, and OSError(number, text, segment) if a segment
/// cannot be read.
#[pyfunction]
#[pyo3(signature = (segments, rules, *, follow=0, groups=Vec::new(), producers=Vec::new(), progress=None))]
fn read(
    py: Python,
    segments: Vec<SegmentArgument>,
    rules: Rules,
    follow: u8,
    groups: Vec<Vec<u8>>,
    producers: Vec<i64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Reading> {
    let segments = take_segments(segments)?;
    let follow = (follow > 0).then(|| Follow::new(segments.len(), rules.start_offset, follow == 2));
    let finder = (!groups.is_empty() || !producers.is_empty()).then(|| BatchFinder::new(groups, producers));
    let mut error = None;
    let result = without_gil(py, || {
        let mut report = |bytes: u64| {
            let call = |py: Python| -> PyResult<()> {
                py.check_signals()?;
                progress.as_ref().map_or(Ok(()), |progress| progress.call1(py, (bytes,)).map(drop))
            };
            error = Python::attach(call).err();
            error.is_none()
        };
        let mut fold = Fold::new(rules);
        (fold.follow, fold.finder) = (follow, finder);
        let mut batches = Batches::new(segments, fold.rules.max_batch_bytes)?;
        let zeros = fold_log(&mut fold, &mut batches, &mut report)?;
        let (batches, records, next_offset) = (fold.batches, fold.records, fold.next_offset);
        let (damage, sorted, starts) = (fold.damage, Vec::new(), Vec::new());
        let mut reading = Reading { batches, records, next_offset, zeros, damage, fold, sorted, starts };
        reading.sort();
        Ok(reading)
    })?;
    result.map_err(|stopped| to_error(stopped, error))
}

/// Reads the records of a log that was folded, as columns.
#[pyclass]
struct Records {
    reader: RecordReader,
}

#[pymethods]
impl Records {
    /// `batch_count` is how many batches the load has read. `with_content`: the bytes of keys and values are columns.
    #[new]
    fn new(
        py: Python,
        segments: Vec<SegmentArgument>,
        rules: Rules,
        batch_count: u64,
        with_content: bool,
    ) -> PyResult<Self> {
        let segments = take_segments(segments)?;
        let batches = without_gil(py, || Batches::new(segments, rules.max_batch_bytes))?;
        let batches = batches.map_err(|stopped| to_error(stopped, None))?;
        Ok(Records { reader: RecordReader::new(rules, batches, batch_count, with_content) })
    }

    /// The columns of the next records, or None at the end. Raises the errors of `read`.
    fn read<'py>(
        &mut self,
        py: Python<'py>,
        max_rows: usize,
        max_bytes: usize,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let reader = &mut self.reader;
        let columns = without_gil(py, || reader.read(max_rows, max_bytes))?;
        let columns = columns.map_err(|stopped| to_error(stopped, None))?;
        columns.map(|table| to_dict(py, &NAMES, &table)).transpose()
    }
}

#[pymodule]
fn kafkagroups_engine(module: &Bound<PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("INTERFACE", INTERFACE)?;
    module.add("HandOver", module.py().get_type::<HandOver>())?;
    module.add_class::<Reading>()?;
    module.add_class::<Records>()?;
    module.add_function(wrap_pyfunction!(read, module)?)?;
    Ok(())
}
