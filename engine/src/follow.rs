//! What the records of a log come to: counts, bytes, times, open transactions and fates, noted while the log is folded.
//!
//! The fates are those of `kafkagroups/groups/offsets.py`, and the rules for group records those of
//! `kafkagroups/groups/offsets.py`. A record that is still in effect is called live. Which group a broker answers
//! is known only after all partitions are loaded, so the caller settles what is left.

use crate::batch::{Header, Record, NO_TIMESTAMP};
use crate::bytes::{int16, Cursor};
use crate::fold::{Row, TypeRule};
use crate::groups;
use crate::table::{HAS_EXPIRE, HAS_TOPIC_ID, NONE};
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};
use std::collections::VecDeque;

type Map<K, V> = HashMap<K, V, RandomState>;
const GROUP_TYPE: i16 = 2;
/// A step back in time is at least an hour, and after a hundred steps the times have no order at all.
const MIN_STEP_MS: i64 = 3_600_000;
const MAX_STEPS: usize = 100;
const MAX_REPLACEMENT_BYTES: usize = 64 << 20;
/// The types of the records that a rebalance writes. A group is worth a look if it writes CROWD of them within an hour,
/// and goes on so for two minutes.
const REBALANCES: [i16; 4] = [2, 3, 11, 17];
const CROWD: usize = 20;
const CROWD_MS: i64 = 3_600_000;
const MIN_STORM_MS: i64 = 120_000;
/// A skip follows this many moves, and is this much longer than the longest of them (`history/event.py`).
const MIN_MOVES: u32 = 10;
const MIN_SKIP: i64 = 1000;
const SKIP_STEPS: i64 = 100;
const MIN_STEPS_BACK: u32 = 2;

#[derive(Clone, Copy, PartialEq)]
#[repr(u8)]
pub enum Fate {
    Undecided,
    Wins,
    Superseded,
    Deleted,
    Hidden,
    Aborted,
    Pending,
    Tombstone,
    Marker,
    Ignored,
}

/// A record that is still in effect.
#[derive(Clone, Copy, Default)]
pub struct Live {
    pub number: u64,
    pub bytes: i64,
    pub segment: u32,
    pub record_type: u8,
    pub moves: Moves,
}

/// How the committed offset of a key has moved so far.
#[derive(Clone, Copy, Default)]
pub struct Moves {
    count: u32,
    back: u32,
    longest: i64,
}

/// Records, bytes and tombstones.
pub type Count = [i64; 3];

/// The first and the last offset of a group's records, their number, and their times.
#[derive(Clone, Copy)]
pub struct Extent {
    pub first: i64,
    pub last: i64,
    pub records: i64,
    pub first_ms: i64,
    pub last_ms: i64,
}

/// For one segment: the bytes of its batches; the bytes of records that are replaced, counted in the later one of the
/// two segments; and the traces of the log cleaner (`history/stats.py`): end, horizon and newest time.
pub type SegmentTotals = [i64; 5];
const BYTES: usize = 0;
const REPLACED: usize = 1;
const TRACE_END: usize = 2;
const TRACE_HORIZON: usize = 3;
const TRACE_NEWEST: usize = 4;

pub struct OpenTransaction {
    pub first_offset: i64,
    pub since_ms: i64,
    pub groups: HashSet<u32, RandomState>,
}

/// The group records of one group.
#[derive(Default)]
pub struct GroupRecords {
    /// The newest value of each key: its type, and the member id or other text after the group id.
    pub newest: Map<(i16, Box<[u8]>), Live>,
    is_known: bool,
    /// The offset of the tombstone that deleted the group last.
    pub tombstone: Option<i64>,
}

/// An example of the records that the same releases can have written: its key, its value, and whether its batch is
/// transactional.
pub type Example = (Vec<u8>, Option<Vec<u8>>, bool);

/// A record of a classic group in which static members have new member ids: offset, timestamp, key, value, and the
/// indexes of these members.
pub type Replacement = (i64, i64, Vec<u8>, Vec<u8>, Vec<usize>);

#[derive(Default)]
pub struct Follow {
    start_offset: i64,
    /// By name and record type (0 and 1).
    pub names: Vec<[Count; 2]>,
    pub live: Vec<Live>,
    pub extents: Vec<Option<Extent>>,
    pub segments: Vec<SegmentTotals>,
    pub control: Count,
    /// The number of abort and of commit markers.
    pub markers: [i64; 2],
    pub first_time: i64,
    pub last_time: i64,
    pub open: Map<i64, OpenTransaction>,
    pub other_counts: Map<(Option<u32>, i16), Count>,
    pub group_records: Map<u32, GroupRecords>,
    seen_kinds: HashSet<(i16, i16, u8), RandomState>,
    pub examples: Vec<Example>,
    /// Each step back in time: the offset of the step before, the newest time, the offset and its time.
    pub time_steps: Vec<(i64, i64, i64, i64)>,
    newest_time: i64,
    /// By group: the times of its newest rebalances, and the begin of the crowd.
    rebalances: Map<u32, (VecDeque<i64>, Option<i64>)>,
    /// The groups whose history is worth a look: many rebalances in an hour, or an offset that skips or goes back.
    pub watched: HashSet<u32, RandomState>,
    static_members: Map<Vec<u8>, Map<Vec<u8>, Vec<u8>>>,
    pub replacements: Vec<Replacement>,
    replacement_bytes: usize,
    pub segment: u32,
    /// For each record: its fate, and the offset of the record that decided it. Empty if only totals are wanted.
    pub fates: Vec<u8>,
    pub by: Vec<i64>,
    keeps_fates: bool,
}

impl Follow {
    pub fn new(segment_count: usize, start_offset: i64, keeps_fates: bool) -> Self {
        Follow {
            start_offset,
            segments: vec![[0, 0, NONE, NONE, NONE]; segment_count],
            first_time: i64::MAX,
            last_time: i64::MIN,
            newest_time: NO_TIMESTAMP,
            keeps_fates,
            ..Follow::default()
        }
    }

    /// Note a batch before its records. `next_offset` is the offset after the batch before, 0 for the first one.
    pub fn start_batch(&mut self, segment: usize, header: &Header, next_offset: i64) {
        let previous_end = if next_offset == 0 { self.start_offset } else { next_offset };
        self.segment = segment as u32;
        let totals = &mut self.segments[segment];
        totals[BYTES] += header.size as i64;
        if header.base_offset >= previous_end {
            if header.base_offset > previous_end {
                totals[TRACE_END] = header.base_offset;
            }
            if header.last_offset - header.base_offset + 1 > header.count as i64 {
                totals[TRACE_END] = header.last_offset + 1;
            }
        }
        if header.has_delete_horizon() {
            totals[TRACE_END] = header.last_offset + 1;
            totals[TRACE_HORIZON] = totals[TRACE_HORIZON].max(header.base_timestamp);
            totals[TRACE_NEWEST] = totals[TRACE_NEWEST].max(header.max_timestamp);
        }
        if header.is_control() || header.count == 0 {
            self.control[0] += header.count as i64;
            self.control[1] += header.size as i64;
        }
        if self.keeps_fates {
            let size = self.fates.len() + header.count;
            self.fates.resize(size, Fate::Undecided as u8);
            self.by.resize(size, NONE);
        }
    }

    /// Note the time of a record, and the transaction that its batch opens. Return the timestamp in ms.
    #[inline]
    pub fn note_record(&mut self, header: &Header, record: &Record, offset: i64, is_first: bool) -> i64 {
        let timestamp = header.timestamp_of(record);
        if timestamp != NO_TIMESTAMP {
            self.first_time = self.first_time.min(timestamp);
            self.last_time = self.last_time.max(timestamp);
        }
        if timestamp > self.newest_time {
            self.newest_time = timestamp;
        } else if (0..=self.newest_time.saturating_sub(MIN_STEP_MS)).contains(&timestamp)
            && self.time_steps.len() < MAX_STEPS
        {
            let after = self.time_steps.last().map_or(-1, |step| step.2);
            self.time_steps.push((after, self.newest_time, offset, timestamp));
            self.newest_time = timestamp;
        }
        if is_first && header.is_transactional() && !header.is_control() {
            self.open.entry(header.producer_id).or_insert_with(|| OpenTransaction {
                first_offset: header.base_offset,
                since_ms: timestamp,
                groups: HashSet::default(),
            });
        }
        timestamp
    }

    pub fn note_control_record(&mut self, header: &Header, record: &Record, control_type: i16, number: u64) {
        self.note_record(header, record, header.base_offset.wrapping_add(record.offset_delta), false);
        let marker = usize::try_from(control_type).ok().and_then(|kind| self.markers.get_mut(kind));
        let fate = if marker.is_some() { Fate::Marker } else { Fate::Ignored };
        if let Some(count) = marker {
            *count += 1;
            self.open.remove(&header.producer_id);
        }
        self.note_fate(number, fate, NONE);
    }

    fn note_fate(&mut self, number: u64, fate: Fate, by: i64) {
        if self.keeps_fates {
            self.fates[number as usize] = fate as u8;
            self.by[number as usize] = by;
        }
    }

    /// Another record, or a marker, replaces a record: its bytes count as replaced.
    pub fn replace(&mut self, live: &Live, fate: Fate, by: i64, by_segment: u32) {
        self.segments[live.segment.max(by_segment) as usize][REPLACED] += live.bytes;
        self.note_fate(live.number, fate, by);
    }

    /// A marker ends the transaction of a commit.
    pub fn end(&mut self, live: &Live, commits: bool, marker_offset: i64) {
        if commits {
            self.note_fate(live.number, Fate::Wins, marker_offset);
        } else {
            self.replace(live, Fate::Aborted, marker_offset, self.segment);
        }
    }

    /// `step` is how far the offset moves; None if no offset of the same topic was committed.
    pub fn put_live(&mut self, entry: u32, mut live: Live, step: Option<i64>, group: u32, is_replaced: bool, by: i64) {
        if self.live.len() <= entry as usize {
            self.live.resize(entry as usize + 1, Live::default());
        }
        if is_replaced {
            let replaced = self.live[entry as usize];
            self.replace(&replaced, Fate::Superseded, by, live.segment);
            if let Some(step) = step {
                live.moves = self.note_move(replaced.moves, step, group);
            }
        }
        self.live[entry as usize] = live;
    }

    #[inline]
    fn note_move(&mut self, mut moves: Moves, step: i64, group: u32) -> Moves {
        let is_skip = moves.count >= MIN_MOVES && step >= MIN_SKIP.max(moves.longest.saturating_mul(SKIP_STEPS));
        moves.count = moves.count.saturating_add(u32::from(step != 0));
        moves.back = moves.back.saturating_add(u32::from(step < 0));
        moves.longest = moves.longest.max(step);
        if is_skip || moves.back >= MIN_STEPS_BACK {
            self.watched.insert(group);
        }
        moves
    }

    fn note_rebalance(&mut self, timestamp: i64, group: u32) {
        let (times, crowded_since) = self.rebalances.entry(group).or_default();
        times.push_back(timestamp);
        let first = if times.len() == CROWD { times.pop_front() } else { None };
        let first = first.filter(|first| timestamp.saturating_sub(*first) <= CROWD_MS);
        *crowded_since = first.map(|first| crowded_since.unwrap_or(first));
        if crowded_since.is_some_and(|since| timestamp.saturating_sub(since) >= MIN_STORM_MS) {
            self.watched.insert(group);
        }
    }

    pub fn delete_live(&mut self, entry: u32, by: i64) {
        let deleted = self.live[entry as usize];
        self.replace(&deleted, Fate::Deleted, by, self.segment);
    }

    pub fn renumber(&mut self, new_numbers: &[u32]) {
        for (old, live) in self.live.clone().into_iter().enumerate() {
            if new_numbers[old] != u32::MAX {
                self.live[new_numbers[old] as usize] = live;
            }
        }
    }

    #[inline]
    pub fn note_offset_record(&mut self, buffer: &[u8], row: &Row, name: u32, group: u32) -> Live {
        if self.names.len() <= name as usize {
            self.names.resize(name as usize + 1, [[0; 3]; 2]);
        }
        let count = &mut self.names[name as usize][row.record_type as usize];
        count[0] += 1;
        count[1] += row.bytes;
        self.note_group(group, row);
        let live = self.make_live(row);
        if row.value_size < 0 {
            self.names[name as usize][row.record_type as usize][2] += 1;
            self.note_fate(row.number, Fate::Tombstone, NONE);
            self.note_kind(buffer, row, -1, 0);
        }
        live
    }

    fn make_live(&self, row: &Row) -> Live {
        let record_type = row.record_type as u8;
        Live { number: row.number, bytes: row.bytes, segment: self.segment, record_type, ..Live::default() }
    }

    #[inline]
    fn note_group(&mut self, group: u32, row: &Row) {
        if self.extents.len() <= group as usize {
            self.extents.resize(group as usize + 1, None);
        }
        let none = Extent { first: row.offset, last: 0, records: 0, first_ms: i64::MAX, last_ms: i64::MIN };
        let extent = self.extents[group as usize].get_or_insert(none);
        extent.last = row.offset;
        extent.records += 1;
        if row.timestamp != NO_TIMESTAMP {
            extent.first_ms = extent.first_ms.min(row.timestamp);
            extent.last_ms = extent.last_ms.max(row.timestamp);
        }
        if row.is_transactional {
            if let Some(open) = self.open.get_mut(&row.producer_id) {
                open.groups.insert(group);
            }
        }
    }

    /// Keep an example of each kind of offset record: the same releases write all records of one kind.
    #[inline]
    pub fn note_kind(&mut self, buffer: &[u8], row: &Row, leader_epoch: i32, flags: u16) {
        let version = row.value(buffer).map_or(-1, |value| int16(value, 0).unwrap_or(-1));
        let flags = (flags & (HAS_EXPIRE | HAS_TOPIC_ID)) as u8 | (u8::from(leader_epoch != -1) << 2);
        self.keep_example((row.record_type, version, (flags << 1) | u8::from(row.is_transactional)), buffer, row);
    }

    #[inline]
    fn keep_example(&mut self, kind: (i16, i16, u8), buffer: &[u8], row: &Row) {
        if self.seen_kinds.insert(kind) {
            let value = row.value(buffer).map(<[u8]>::to_vec);
            self.examples.push((row.key(buffer).to_vec(), value, row.is_transactional));
        }
    }

    /// Note a record that is no offset record. `has_commit_before`: a commit of the group came after its record before.
    pub fn note_other_record(
        &mut self,
        buffer: &[u8],
        row: &Row,
        rule: TypeRule,
        group: Option<u32>,
        has_commit_before: bool,
    ) -> Result<(), &'static str> {
        let key = row.key(buffer);
        let value = row.value(buffer);
        if rule.has_group && groups::group_of(key).is_some_and(|id| std::str::from_utf8(id).is_err()) {
            return Err("a group id that is not UTF-8");
        }
        let count = self.other_counts.entry((group, row.record_type)).or_default();
        count[0] += 1;
        count[1] += row.bytes;
        count[2] += i64::from(rule.is_read && value.is_none());
        if let Some(group) = group {
            self.note_group(group, row);
            if value.is_some() && REBALANCES.contains(&row.record_type) {
                self.note_rebalance(row.timestamp, group);
            }
        }
        if row.record_type == GROUP_TYPE {
            self.note_static_members(row, key, value)?;
        }
        if !rule.is_read {
            self.note_fate(row.number, Fate::Ignored, NONE);
            if let Some(group) = group.filter(|_| has_commit_before) {
                self.group_records.entry(group).or_default().is_known = true;
            }
            return Ok(());
        }
        let version = value.map_or(-1, |value| int16(value, 0).unwrap_or(-1));
        if value.is_none() {
            self.note_fate(row.number, Fate::Tombstone, NONE);
        }
        if value.is_none() || row.record_type == GROUP_TYPE {
            self.keep_example((row.record_type, version, 0), buffer, row);
        }
        let Some(group) = group else {
            return Ok(());
        };
        let detail = match rule.has_detail {
            true => {
                let mut fields = Cursor { data: key, at: 2 };
                fields
                    .string()
                    .and(fields.string())
                    .filter(|text| std::str::from_utf8(text).is_ok())
                    .ok_or("an odd key of a group record")?
            }
            false => &[],
        };
        let live = self.make_live(row);
        self.apply_group_record(group, row, rule, detail, live, has_commit_before);
        Ok(())
    }

    fn apply_group_record(
        &mut self,
        group: u32,
        row: &Row,
        rule: TypeRule,
        detail: &[u8],
        live: Live,
        has_commit_before: bool,
    ) {
        let mut records = self.group_records.remove(&group).unwrap_or_default();
        records.is_known |= has_commit_before;
        let is_tombstone = row.value_size < 0;
        let same = records.newest.remove(&(row.record_type, Box::from(detail)));
        if let Some(same) = same {
            let fate = if is_tombstone { Fate::Deleted } else { Fate::Superseded };
            self.replace(&same, fate, row.offset, self.segment);
        }
        if is_tombstone && rule.ends_group {
            for (_, live) in records.newest.drain() {
                self.note_fate(live.number, Fate::Deleted, row.offset);
            }
            if records.is_known {
                records.tombstone = Some(row.offset);
            }
            records.is_known = false;
        }
        if !is_tombstone {
            // A classic group record replaces a group of the new protocols, and the other way round.
            let is_classic = row.record_type == GROUP_TYPE;
            for (_, live) in records.newest.extract_if(|key, _| (key.0 == GROUP_TYPE) != is_classic) {
                self.note_fate(live.number, Fate::Superseded, row.offset);
            }
            records.newest.insert((row.record_type, Box::from(detail)), live);
            records.is_known = true;
        }
        self.group_records.insert(group, records);
    }

    /// Keep the records in which a static member has another member id than in the record of the group before.
    fn note_static_members(&mut self, row: &Row, key: &[u8], value: Option<&[u8]>) -> Result<(), &'static str> {
        let Some(value) = value else {
            self.static_members.remove(key);
            return Ok(());
        };
        let members = groups::read_members(value, i16::MAX);
        if members.is_none() && int16(value, 0) > Some(3) {
            return Err("a group record of a version above 3");
        }
        let ids = members.map(|members| members.ids).unwrap_or_default();
        if ids.first().is_none_or(|first| first.0.is_none()) {
            self.static_members.remove(key);
            return Ok(());
        }
        let known = self.static_members.get(key);
        let mut new_members = Map::default();
        let mut replaced = Vec::new();
        for (index, (instance_id, member_id)) in ids.iter().enumerate() {
            let Some(instance_id) = instance_id else {
                continue;
            };
            if known.and_then(|known| known.get(*instance_id)).is_some_and(|before| before != member_id) {
                replaced.push(index);
            }
            new_members.insert(instance_id.to_vec(), member_id.to_vec());
        }
        self.static_members.insert(key.to_vec(), new_members);
        if !replaced.is_empty() {
            self.replacement_bytes += size_of::<Replacement>() + key.len() + value.len() + 8 * replaced.len();
            if self.replacement_bytes > MAX_REPLACEMENT_BYTES {
                return Err("more than 64 MiB of records with new member ids of static members");
            }
            self.replacements.push((row.offset, row.timestamp, key.to_vec(), value.to_vec(), replaced));
        }
        Ok(())
    }
}
