//! The interface to Python: `read` folds a log, `Records` reads its records as columns.

use crate::columns::{uuid_text, Column};
use crate::explain::{find_batches_of, GroupFinder, Hole};
use crate::fold::{fold_log, Fold, Rules, TypeRule};
use crate::follow::{Fate, Follow, NO_GROUP};
use crate::pending::Value;
use crate::records::{Columns, RecordReader};
use crate::source::{Batches, Bytes, Place, Segment, Stopped, Zeros};
use crate::table::{Extra, Keys, HAS_EXPIRE, HAS_TOPIC_ID, NONE};
use crate::{groups::OtherRecords, pending::Pending};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use std::collections::HashSet;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;

/// The number of this interface. It changes with every change that Python code can notice.
const INTERFACE: u32 = 1;

pyo3::create_exception!(kafkagroups_engine, HandOver, pyo3::exceptions::PyException);

/// A segment as Python describes it: a path or a buffer, and the range of its bytes.
type SegmentArgument<'py> = (Bound<'py, PyAny>, u64, Option<u64>);
/// Whether the type is read, has a group, a second text, a member id, and ends its group; its newest value version.
type TypeArgument = (bool, bool, bool, bool, bool, i16);

#[derive(FromPyObject)]
struct RulesArgument {
    is_classic: bool,
    max_offset_version: i16,
    max_type0_version: i16,
    max_group_version: i16,
    keeps_topic_ids: bool,
    needs_marker: bool,
    last_offset: i64,
    last_time: i64,
    max_batch_bytes: usize,
    types: Vec<TypeArgument>,
}

impl RulesArgument {
    fn rules(self) -> Rules {
        let type_rule = |(is_read, has_group, has_detail, has_member, ends_group, newest_version)| TypeRule {
            is_read,
            has_group,
            has_detail,
            has_member,
            ends_group,
            newest_version,
        };
        Rules {
            is_classic: self.is_classic,
            max_offset_version: self.max_offset_version,
            max_type0_version: self.max_type0_version,
            max_group_version: self.max_group_version,
            keeps_topic_ids: self.keeps_topic_ids,
            needs_marker: self.needs_marker,
            last_offset: self.last_offset,
            last_time: self.last_time,
            max_batch_bytes: self.max_batch_bytes,
            types: self.types.into_iter().map(type_rule).collect(),
        }
    }
}

fn take_segments(segments: Vec<SegmentArgument>) -> PyResult<Vec<Segment>> {
    let mut taken = Vec::with_capacity(segments.len());
    for (source, start, end) in segments {
        let bytes = match PyBuffer::<u8>::get(&source) {
            Ok(buffer) => Bytes::Loader(Box::new(move || {
                Python::attach(|py| buffer.to_vec(py)).map_err(|error| std::io::Error::other(error.to_string()))
            })),
            Err(_) => Bytes::File(source.extract::<PathBuf>()?),
        };
        taken.push(Segment { bytes, start, end });
    }
    Ok(taken)
}

/// Run `work` without the GIL. A panic, which no log should cause, becomes an error of Python.
fn without_gil<T: Send>(py: Python, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    py.detach(|| catch_unwind(AssertUnwindSafe(work)))
        .map_err(|_| PyRuntimeError::new_err("the native engine has a defect: please report it, with the log"))
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
    is_classic: bool,
    keys: Keys,
    pending: Pending,
    others: OtherRecords,
    newest_commit: Vec<i64>,
    follow: Option<Follow>,
    finder: Option<GroupFinder>,
    /// The entries with a committed offset, sorted by group; where those of each group begin is in `starts`.
    sorted: Vec<u32>,
    starts: Vec<usize>,
}

/// A commit for Python: topic, partition, offset, metadata (bytes if it is not UTF-8), commit time, leader epoch,
/// expire time, topic id, record offset, batch offset.
type CommitRow<'py> =
    (&'py str, i32, i64, Bound<'py, PyAny>, i64, i32, Option<i64>, Option<Bound<'py, PyBytes>>, i64, i64);

impl Reading {
    fn sort(&mut self) {
        let group_count = self.keys.groups.places.len();
        let mut starts = vec![0; group_count + 1];
        let group_of = |keys: &Keys, entry: usize| keys.names[keys.entries[entry].name as usize].group as usize;
        let committed = |keys: &Keys, entry: usize| keys.entries[entry].record_offset != NONE;
        for entry in (0..self.keys.entries.len()).filter(|entry| committed(&self.keys, *entry)) {
            starts[group_of(&self.keys, entry) + 1] += 1;
        }
        for group in 0..group_count {
            starts[group + 1] += starts[group];
        }
        let mut next = starts.clone();
        self.sorted = vec![0; starts[group_count]];
        for entry in (0..self.keys.entries.len()).filter(|entry| committed(&self.keys, *entry)) {
            let group = group_of(&self.keys, entry);
            self.sorted[next[group]] = entry as u32;
            next[group] += 1;
        }
        self.starts = starts;
    }

    fn entries_of(&self, group: u32) -> &[u32] {
        let group = group as usize;
        &self.sorted[self.starts[group]..self.starts[group + 1]]
    }

    fn commit_row<'py>(
        &'py self,
        py: Python<'py>,
        entry: u32,
        value: &Value,
        metadata: &[u8],
        record_offset: i64,
        batch_offset: i64,
    ) -> CommitRow<'py> {
        let entry = &self.keys.entries[entry as usize];
        let metadata = match std::str::from_utf8(metadata) {
            Ok(text) => PyString::new(py, text).into_any(),
            Err(_) => PyBytes::new(py, metadata).into_any(),
        };
        (
            self.keys.group_and_topic(entry.name).1,
            entry.partition,
            value.offset,
            metadata,
            value.commit_time,
            value.leader_epoch,
            (value.flags & HAS_EXPIRE != 0).then_some(value.extra.expire_time),
            (value.flags & HAS_TOPIC_ID != 0).then(|| PyBytes::new(py, &value.extra.topic_id)),
            record_offset,
            // The new coordinator does not compare batches.
            if self.is_classic { batch_offset } else { record_offset },
        )
    }

    fn group_text(&self, group: u32) -> Option<&str> {
        std::str::from_utf8(self.keys.groups.get(group)).ok()
    }
}

#[pymethods]
impl Reading {
    /// For each group with offset records: its number, its id, the offset of its newest commit (-1: it has only
    /// tombstones), and how many offsets it has.
    fn groups(&self) -> Vec<(u32, &str, i64, usize)> {
        let mut has_offsets = vec![false; self.keys.groups.places.len()];
        for name in &self.keys.names {
            has_offsets[name.group as usize] = true;
        }
        let numbers = (0..has_offsets.len() as u32).filter(|group| has_offsets[*group as usize]);
        numbers
            .map(|group| {
                let newest = self.newest_commit.get(group as usize).copied().unwrap_or(NONE);
                (group, self.group_text(group).unwrap_or(""), newest, self.entries_of(group).len())
            })
            .collect()
    }

    /// The committed offsets of a group.
    fn offsets<'py>(&'py self, py: Python<'py>, group: u32) -> Vec<CommitRow<'py>> {
        let row = |number: &u32| {
            let entry = &self.keys.entries[*number as usize];
            let value = Value {
                offset: entry.offset,
                commit_time: entry.commit_time,
                leader_epoch: entry.leader_epoch,
                flags: entry.flags,
                extra: self.keys.extras[*number as usize],
                metadata: Vec::new(),
            };
            let metadata = self.keys.metadata_of(entry);
            self.commit_row(py, *number, &value, metadata, entry.record_offset, entry.batch_offset)
        };
        self.entries_of(group).iter().map(row).collect()
    }

    /// The pending commits: producer id, group id, and the commit.
    fn pending<'py>(&'py self, py: Python<'py>) -> Vec<(i64, &'py str, CommitRow<'py>)> {
        let row = |commit: &'py crate::pending::Commit| {
            let name = self.keys.entries[commit.entry as usize].name;
            let value = &commit.value;
            let row =
                self.commit_row(py, commit.entry, value, &value.metadata, commit.record_offset, commit.batch_offset);
            (commit.producer, self.keys.group_and_topic(name).0, row)
        };
        self.pending.iter().map(row).collect()
    }

    /// The records that are not offset records, in the order of the log: offset, the newest commit of the group since
    /// the record before (-1: none), key, value, and whether the record is a plain group record.
    #[allow(clippy::type_complexity)]
    fn other_records<'py>(
        &self,
        py: Python<'py>,
    ) -> Vec<(i64, i64, Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>, bool)> {
        let mut rows: Vec<_> = self.others.rows.iter().collect();
        rows.sort_by_key(|row| row.number);
        rows.iter()
            .map(|row| {
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
        let mut parts = Vec::new();
        let mut columns = OffsetColumns::default();
        for group in groups {
            for number in self.entries_of(group) {
                columns.add(&self.keys, *number);
                if columns.rows == max_rows || columns.bytes >= max_bytes {
                    parts.push(std::mem::take(&mut columns).into_dict(py)?);
                }
            }
        }
        if columns.rows > 0 {
            parts.push(columns.into_dict(py)?);
        }
        Ok(parts)
    }

    /// Where the batches of the group begin that `read` was asked for: the segment, the position, the size, and the hole
    /// before; and the hole after the last one.
    #[allow(clippy::type_complexity)]
    fn group_batches(&self) -> (Vec<(usize, u64, usize, Option<Hole>)>, Option<Hole>) {
        let Some(finder) = &self.finder else {
            return (Vec::new(), None);
        };
        let row = |(place, size, hole): &(Place, usize, _)| (place.segment, place.position, *size, *hole);
        let rows = finder.found.iter().map(row).collect();
        (rows, finder.last_hole())
    }

    /// What was noted while the log was followed. `rows` has a row for each group or name and record type: the number
    /// of the group, the topic (None unless `by_topic`), the type, records, bytes, tombstones, then the records and
    /// bytes of committed and of pending offsets.
    fn totals<'py>(&self, py: Python<'py>, by_topic: bool) -> PyResult<Bound<'py, PyDict>> {
        let totals = PyDict::new(py);
        let Some(follow) = &self.follow else {
            return Ok(totals);
        };
        let mut counts = vec![[[0i64; 7]; 2]; self.keys.names.len()];
        for (count, total) in counts.iter_mut().flatten().zip(follow.names.iter().flatten()) {
            count[..3].copy_from_slice(total);
        }
        let committed = self.sorted.iter().map(|entry| (*entry, follow.live[*entry as usize], 3));
        let pending = self.pending.iter().map(|commit| (commit.entry, commit.live, 5));
        for (entry, live, column) in committed.chain(pending) {
            let name = self.keys.entries[entry as usize].name as usize;
            let count = &mut counts[name][live.record_type as usize];
            count[column] += 1;
            count[column + 1] += live.bytes;
        }
        let mut rows: Vec<(u32, Option<&str>, usize, Vec<i64>)> = Vec::new();
        let mut of_group = vec![[[0i64; 7]; 2]; if by_topic { 0 } else { self.keys.groups.places.len() }];
        for (name, by_type) in counts.iter().enumerate() {
            let group = self.keys.names[name].group;
            for (record_type, count) in by_type.iter().enumerate() {
                if by_topic && count[0] > 0 {
                    let topic = self.keys.group_and_topic(name as u32).1;
                    rows.push((group, Some(topic), record_type, count.to_vec()));
                } else if !by_topic {
                    let sum = &mut of_group[group as usize][record_type];
                    sum.iter_mut().zip(count).for_each(|(sum, count)| *sum += count);
                }
            }
        }
        for (group, by_type) in of_group.iter().enumerate() {
            for (record_type, count) in by_type.iter().enumerate().filter(|(_, count)| count[0] > 0) {
                rows.push((group as u32, None, record_type, count.to_vec()));
            }
        }
        totals.set_item("rows", rows)?;
        let others: Vec<_> = follow
            .other_counts
            .iter()
            .map(|(key, count)| ((key.0 != NO_GROUP).then_some(key.0), key.1, *count))
            .collect();
        totals.set_item("other_rows", others)?;
        let live: Vec<_> = follow
            .group_records
            .iter()
            .flat_map(|(group, records)| records.newest.iter().map(|(key, live)| (*group, key.0, live.bytes)))
            .collect();
        totals.set_item("live_group_records", live)?;
        let ids: Vec<_> = (0..self.keys.groups.places.len() as u32).map(|group| self.group_text(group)).collect();
        totals.set_item("group_ids", ids)?;
        let segment = |total: &crate::follow::SegmentTotals| {
            (total.bytes, total.replaced, total.trace_end, total.trace_horizon, total.trace_newest)
        };
        totals.set_item("segments", follow.segments.iter().map(segment).collect::<Vec<_>>())?;
        totals.set_item("control", follow.control)?;
        totals.set_item("markers", follow.markers)?;
        totals.set_item(
            "times",
            (follow.first_time <= follow.last_time).then_some((follow.first_time, follow.last_time)),
        )?;
        let open: Vec<(i64, i64, i64, Vec<u32>)> = follow
            .open
            .iter()
            .map(|(producer, open)| {
                (*producer, open.first_offset, open.since_ms, open.groups.iter().copied().collect())
            })
            .collect();
        totals.set_item("open_transactions", open)?;
        totals.set_item("time_steps", &follow.time_steps)?;
        let bytes = |data: &Vec<u8>| PyBytes::new(py, data);
        let examples: Vec<_> = follow
            .examples
            .iter()
            .map(|(key, value, is_transactional)| (bytes(key), value.as_ref().map(bytes), *is_transactional))
            .collect();
        totals.set_item("examples", examples)?;
        let replacements: Vec<_> = follow
            .replacements
            .iter()
            .map(|(offset, time, key, value, members)| (*offset, *time, bytes(key), bytes(value), members.clone()))
            .collect();
        totals.set_item("static_replacements", replacements)?;
        let extents: Vec<_> = follow
            .extents
            .iter()
            .enumerate()
            .filter_map(|(group, extent)| {
                extent.map(|extent| {
                    let times = (extent.first_ms <= extent.last_ms).then_some((extent.first_ms, extent.last_ms));
                    (group as u32, extent.first, extent.last, extent.records, times)
                })
            })
            .collect();
        totals.set_item("extents", extents)?;
        Ok(totals)
    }

    /// Decide the remaining fates. `answers` has for each group of `totals()["group_ids"]`: the fates of its committed
    /// offsets, pending commits and group records, as numbers, and whether the coordinator has read its records.
    /// Return the number of each record's fate and the offset of the record that decided it (-1: none), as buffers.
    fn settle<'py>(
        &self,
        py: Python<'py>,
        answers: Vec<(u8, u8, u8, bool)>,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let Some(follow) = &self.follow else {
            return Err(PyRuntimeError::new_err("the log was not followed"));
        };
        let mut fates = follow.fates.clone();
        let mut by = follow.by.clone();
        for entry in &self.sorted {
            let group = self.keys.names[self.keys.entries[*entry as usize].name as usize].group;
            let (fate, _, _, is_read) = answers[group as usize];
            let number = follow.live[*entry as usize].number as usize;
            fates[number] = fate;
            if fate == Fate::Hidden as u8 {
                by[number] = follow.group_records.get(&group).and_then(|records| records.tombstone).unwrap_or(NONE);
            } else if fate == Fate::Ignored as u8 && is_read {
                by[number] = NONE;
            }
        }
        for commit in self.pending.iter() {
            let group = self.keys.names[self.keys.entries[commit.entry as usize].name as usize].group;
            fates[commit.live.number as usize] = answers[group as usize].1;
        }
        for (group, records) in &follow.group_records {
            for live in records.newest.values() {
                fates[live.number as usize] = answers[*group as usize].2;
            }
        }
        for fate in &mut fates {
            if *fate == Fate::Undecided as u8 {
                *fate = Fate::Ignored as u8;
            }
        }
        let by: Vec<u8> = by.iter().flat_map(|offset| offset.to_le_bytes()).collect();
        Ok((PyBytes::new(py, &fates), PyBytes::new(py, &by)))
    }
}

#[derive(Default)]
struct OffsetColumns {
    rows: usize,
    bytes: usize,
    has_odd_metadata: bool,
    texts: [Column; 4],
    numbers: [Column; 4],
    small_numbers: [Column; 2],
}

impl OffsetColumns {
    fn add(&mut self, keys: &Keys, number: u32) {
        let entry = &keys.entries[number as usize];
        let extra: &Extra = &keys.extras[number as usize];
        let (group, topic) = keys.group_and_topic(entry.name);
        let metadata = keys.metadata_of(entry);
        let topic_id = (entry.flags & HAS_TOPIC_ID != 0).then(|| uuid_text(&extra.topic_id));
        self.rows += 1;
        self.bytes += group.len() + topic.len() + metadata.len() + topic_id.map_or(0, |id| id.len());
        self.has_odd_metadata |= std::str::from_utf8(metadata).is_err();
        self.texts[0].text(Some(group.as_bytes()));
        self.texts[1].text(Some(topic.as_bytes()));
        self.texts[2].text(Some(metadata));
        self.texts[3].text(topic_id.as_ref().map(|id| id.as_slice()));
        self.small_numbers[0].int32(Some(entry.partition));
        self.small_numbers[1].int32(Some(entry.leader_epoch));
        self.numbers[0].int64(Some(entry.offset));
        self.numbers[1].int64(Some(entry.commit_time));
        self.numbers[2].int64((entry.flags & HAS_EXPIRE != 0).then_some(extra.expire_time));
        self.numbers[3].int64(Some(entry.record_offset));
    }

    fn into_dict(self, py: Python) -> PyResult<Bound<PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("rows", self.rows)?;
        dict.set_item("has_odd_metadata", self.has_odd_metadata)?;
        set_columns(&dict, ["group", "topic", "metadata", "topic_id"], &self.texts)?;
        set_columns(&dict, ["topic_partition", "leader_epoch"], &self.small_numbers)?;
        let names = ["committed_offset", "commit_timestamp_ms", "expire_timestamp_ms", "record_offset"];
        set_columns(&dict, names, &self.numbers)?;
        Ok(dict)
    }
}

fn set_columns<const N: usize>(dict: &Bound<PyDict>, names: [&str; N], columns: &[Column; N]) -> PyResult<()> {
    for (name, column) in names.iter().zip(columns) {
        set_column(dict, name, column)?;
    }
    Ok(())
}

/// A column for Python: its bits of validity (None: no value is null), the ends of its texts (None for numbers), and
/// its numbers or texts.
fn set_column(dict: &Bound<PyDict>, name: &str, column: &Column) -> PyResult<()> {
    let py = dict.py();
    let valid = (column.nulls > 0).then(|| PyBytes::new(py, &column.valid));
    let ends = (!column.ends.is_empty()).then(|| PyBytes::new(py, &column.ends));
    dict.set_item(name, (valid, ends, PyBytes::new(py, &column.data)))
}

/// Fold the segments of one partition. `follow`: 0 only loads, 1 also counts, 2 also keeps the fate of each record.
/// `group` is a group whose batches are found. `progress` is called with the number of bytes that were read.
///
/// Raise HandOver(segment, position, reason) if the log is unusual, and OSError(number, text, segment) if a segment
/// cannot be read.
#[pyfunction]
#[pyo3(signature = (segments, rules, *, follow=0, start_offset=0, group=None, progress=None))]
fn read(
    py: Python,
    segments: Vec<SegmentArgument>,
    rules: RulesArgument,
    follow: u8,
    start_offset: i64,
    group: Option<Vec<u8>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Reading> {
    let segments = take_segments(segments)?;
    let rules = rules.rules();
    let is_classic = rules.is_classic;
    let follow = (follow > 0).then(|| Follow::new(segments.len(), start_offset, follow == 2));
    let finder = group.map(|group| GroupFinder::new(&group));
    let mut error = None;
    let result = without_gil(py, || {
        let mut report = |bytes: u64| {
            let call = |py: Python| -> PyResult<()> {
                py.check_signals()?;
                match &progress {
                    Some(progress) => progress.call1(py, (bytes,)).map(|_| ()),
                    None => Ok(()),
                }
            };
            error = Python::attach(call).err();
            error.is_none()
        };
        let mut fold = Fold::new(rules, follow, finder, &mut report);
        let mut batches = Batches::new(segments, fold.rules.max_batch_bytes)?;
        let zeros = fold_log(&mut fold, &mut batches)?;
        let mut reading = Reading {
            batches: fold.batches,
            records: fold.records,
            next_offset: fold.next_offset,
            zeros,
            is_classic,
            keys: fold.keys,
            pending: fold.pending,
            others: fold.others,
            newest_commit: fold.newest_commit,
            follow: fold.follow,
            finder: fold.finder,
            sorted: Vec::new(),
            starts: Vec::new(),
        };
        reading.sort();
        Ok(reading)
    })?;
    result.map_err(|stopped| to_error(stopped, error))
}

/// Find the batches of some producers, up to the one that begins at `last_offset`: segment, position and size.
///
/// Raises the errors of `read`.
#[pyfunction]
fn find_batches(
    py: Python,
    segments: Vec<SegmentArgument>,
    producers: Vec<i64>,
    last_offset: i64,
    max_batch_bytes: usize,
) -> PyResult<Vec<(usize, u64, usize)>> {
    let segments = take_segments(segments)?;
    let producers = HashSet::from_iter(producers);
    let found = without_gil(py, || find_batches_of(segments, &producers, last_offset, max_batch_bytes))?;
    let found = found.map_err(|stopped| to_error(stopped, None))?;
    Ok(found.iter().map(|(place, size)| (place.segment, place.position, *size)).collect())
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
        rules: RulesArgument,
        batch_count: u64,
        with_content: bool,
    ) -> PyResult<Self> {
        let segments = take_segments(segments)?;
        let rules = rules.rules();
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
        columns.map(|columns| record_dict(py, &columns)).transpose()
    }
}

fn record_dict<'py>(py: Python<'py>, columns: &Columns) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("rows", columns.rows)?;
    for (name, column) in [
        ("offset", &columns.offset),
        ("timestamp_ms", &columns.timestamp_ms),
        ("batch_offset", &columns.batch_offset),
        ("producer_id", &columns.producer_id),
        ("producer_epoch", &columns.producer_epoch),
        ("transactional", &columns.transactional),
        ("control_type", &columns.control_type),
        ("type", &columns.record_type),
        ("is_read", &columns.is_read),
        ("group", &columns.group),
        ("topic", &columns.topic),
        ("topic_partition", &columns.topic_partition),
        ("key", &columns.key),
        ("value", &columns.value),
        ("value_version", &columns.value_version),
        ("member_id", &columns.member_id),
        ("committed_offset", &columns.committed_offset),
        ("key_bytes", &columns.key_bytes),
        ("value_bytes", &columns.value_bytes),
    ] {
        set_column(&dict, name, column)?;
    }
    Ok(dict)
}

#[pymodule]
fn kafkagroups_engine(module: &Bound<PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("INTERFACE", INTERFACE)?;
    module.add("HandOver", module.py().get_type::<HandOver>())?;
    module.add_class::<Reading>()?;
    module.add_class::<Records>()?;
    module.add_function(wrap_pyfunction!(read, module)?)?;
    module.add_function(wrap_pyfunction!(find_batches, module)?)?;
    Ok(())
}
