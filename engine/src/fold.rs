//! Folds a log: finds the newest commit of each key, and applies markers to pending commits.
//!
//! The rules are those of `kafkagroups/groups/offsets.py` and of its two users, the classic and the new coordinator.
//! The records of several batches are collected in a block and then applied in order. Between the two steps, the CPU
//! loads what they need into its cache, because the time of a load is the time of waiting for memory.

use crate::batch::{self, Header, Record, NO_PRODUCER_ID};
use crate::bytes::{int16, int32, Cursor};
use crate::explain::BatchFinder;
use crate::follow::{Fate, Follow, Live};
use crate::groups::{self, OtherRecords};
use crate::pending::{Commit, Pending, Value};
use crate::prefetch::prefetch;
use crate::source::{Batches, Event, Place, Stopped, Zeros, NO_BATCH, WRONG_CHECKSUM};
use crate::table::{hash, key_hash, Extra, Keys, HAS_EXPIRE, HAS_TOPIC_ID, NONE};
use std::borrow::Cow;

const BLOCK_ROWS: usize = 256;
const COMMIT: i16 = 1;
const ABORT: i16 = 0;
/// In place of the newest commit of a group that has no offset record.
pub const NO_RECORD: i64 = -2;

/// What the dialect says of a record type.
#[derive(Clone, Copy, Default)]
#[cfg_attr(feature = "python", derive(pyo3::FromPyObject))]
pub struct TypeRule {
    /// Whether the coordinator reads the type.
    pub is_read: bool,
    /// Whether the key has a group id, and whether it also has a member id or another text.
    pub has_group: bool,
    pub has_detail: bool,
    /// Whether the second text is a member id.
    pub has_member: bool,
    /// Whether its tombstone deletes the group.
    pub ends_group: bool,
    pub newest_version: i16,
}

/// The reading rules of one coordinator and release, and where to stop.
#[derive(Clone, Default)]
#[cfg_attr(feature = "python", derive(pyo3::FromPyObject))]
pub struct Rules {
    pub is_classic: bool,
    pub max_offset_version: i16,
    pub max_type0_version: i16,
    pub max_group_version: i16,
    pub keeps_topic_ids: bool,
    /// Whether a control batch without a record is an error.
    pub needs_marker: bool,
    pub last_offset: i64,
    pub last_time: i64,
    pub max_batch_bytes: usize,
    /// The offset in the name of the first segment: offsets before it are not missing.
    pub start_offset: i64,
    pub types: Vec<TypeRule>,
}

impl Rules {
    pub fn type_rule(&self, record_type: i16) -> TypeRule {
        usize::try_from(record_type).ok().and_then(|index| self.types.get(index).copied()).unwrap_or_default()
    }
}

/// One record of the block. Positions are those in the buffer of the block.
#[derive(Default)]
pub struct Row {
    pub key_at: usize,
    pub key_size: u32,
    pub value_at: usize,
    /// -1: the record is a tombstone.
    pub value_size: i32,
    pub record_type: i16,
    /// The group and the topic of an offset record, with their sizes, are this many bytes of the key.
    name_size: u32,
    has_name_of_previous: bool,
    name_hash: u64,
    key_hash: u64,
    pub offset: i64,
    first_offset: i64,
    pub producer_id: i64,
    is_pending: bool,
    pub is_transactional: bool,
    pub timestamp: i64,
    pub bytes: i64,
    pub number: u64,
}

impl Row {
    fn is_offset_record(&self) -> bool {
        self.record_type == 0 || self.record_type == 1
    }

    pub fn key<'a>(&self, buffer: &'a [u8]) -> &'a [u8] {
        &buffer[self.key_at..self.key_at + self.key_size as usize]
    }

    pub fn value<'a>(&self, buffer: &'a [u8]) -> Option<&'a [u8]> {
        let size = usize::try_from(self.value_size).ok()?;
        Some(&buffer[self.value_at..self.value_at + size])
    }
}

#[derive(Default)]
pub struct Fold {
    pub rules: Rules,
    pub keys: Keys,
    pub pending: Pending,
    pub others: OtherRecords,
    /// By group: the offset of its newest commit, also of a pending one; NONE if it has only tombstones.
    pub newest_commit: Vec<i64>,
    pub batches: u64,
    pub records: u64,
    pub next_offset: i64,
    /// Where a load has ended because the bytes there can be damaged. A log that is followed is handed over instead.
    pub damage: Option<(usize, u64)>,
    pub follow: Option<Follow>,
    pub finder: Option<BatchFinder>,
    block: Vec<Row>,
    /// Where in the piece the key of the record is that the block could not apply.
    odd_at: Option<usize>,
}

impl Fold {
    pub fn new(rules: Rules) -> Self {
        let mut keys = Keys::default();
        keys.grow(2 * BLOCK_ROWS, false, |_| false);
        Fold { rules, keys, block: Vec::with_capacity(2 * BLOCK_ROWS), ..Fold::default() }
    }

    /// Fold one batch: `header` and its bytes from `at` in `piece`. Return whether it is before the stop.
    fn add_batch(&mut self, place: Place, header: &Header, piece: &[u8], at: usize) -> Result<bool, &'static str> {
        if header.max_timestamp > self.rules.last_time || header.base_offset > self.rules.last_offset {
            return Ok(false);
        }
        let bytes = &piece[at..at + header.size];
        let content = batch::records_of(bytes, header, self.next_offset, self.rules.max_batch_bytes)?;
        if let Some(finder) = &mut self.finder {
            finder.start_batch(header);
        }
        if header.is_control() || matches!(content, Cow::Owned(_)) {
            self.apply_block(piece)?;
        }
        if let Some(follow) = &mut self.follow {
            follow.start_batch(place.segment, header, self.next_offset);
        }
        match &content {
            _ if header.is_control() => self.add_control_batch(header, &content)?,
            Cow::Owned(content) => {
                self.add_records(header, content, 0, content.len())?;
                let applied = self.apply_block(content);
                self.odd_at = None;
                applied?;
            }
            Cow::Borrowed(_) => self.add_records(header, piece, at + batch::HEADER_SIZE, at + header.size)?,
        }
        if let Some(finder) = &mut self.finder {
            finder.end_batch(place, header);
        }
        self.batches += 1;
        self.records += header.count as u64;
        self.next_offset = header.last_offset + 1;
        Ok(true)
    }

    fn add_control_batch(&mut self, header: &Header, content: &[u8]) -> Result<(), &'static str> {
        if header.count == 0 && self.rules.needs_marker {
            return Err("this release expects a record in every control batch");
        }
        let mut cursor = Cursor::new(content);
        for index in 0..header.count {
            let record = batch::next_record(&mut cursor).ok_or("an odd record in a control batch")?;
            let control_type = batch::control_type(&record).ok_or("an odd key of a control record")?;
            let is_marker = control_type == COMMIT || control_type == ABORT;
            let offset = header.base_offset.wrapping_add(record.offset_delta);
            if let Some(follow) = &mut self.follow {
                follow.note_control_record(header, &record, control_type, self.records + index as u64);
            }
            // The classic coordinator reads only the first record, and takes every other type for an abort.
            let is_applied = if self.rules.is_classic { index == 0 } else { is_marker };
            if is_applied {
                self.end_transaction(header.producer_id, control_type == COMMIT, offset);
            }
        }
        if cursor.at != content.len() {
            return Err("bytes behind the records of a batch");
        }
        Ok(())
    }

    /// Add the records of a batch to the block. `content` begins at `start` in the buffer of the block.
    fn add_records(&mut self, header: &Header, buffer: &[u8], start: usize, end: usize) -> Result<(), &'static str> {
        let is_pending =
            if self.rules.is_classic { header.is_transactional() } else { header.producer_id != NO_PRODUCER_ID };
        let mut cursor = Cursor { data: &buffer[..end], at: start };
        let mut first_offset = NONE;
        let mut previous_offset = header.base_offset - 1;
        let content_size = (end - start) as u64;
        for index in 0..header.count {
            let record = batch::next_record(&mut cursor).ok_or("an odd record")?;
            let key = record.key.ok_or("a record without a key")?;
            let offset = header.base_offset.wrapping_add(record.offset_delta);
            if offset <= previous_offset || offset > header.last_offset {
                return Err("the offsets in a batch do not rise");
            }
            previous_offset = offset;
            if index == 0 {
                first_offset = offset;
            }
            let mut row = self.make_row(header, buffer, key, &record).ok_or("an odd key")?;
            row.offset = offset;
            row.first_offset = first_offset;
            row.is_pending = is_pending;
            row.number = self.records + index as u64;
            if let Some(follow) = &mut self.follow {
                row.timestamp = follow.note_record(header, &record, offset, index == 0);
                let upto = |position: usize| header.size as u64 * (position - start) as u64 / content_size;
                row.bytes = (upto(record.end) - upto(record.start)) as i64;
            }
            if row.is_offset_record() {
                self.keys.prefetch_slot(row.key_hash);
            }
            if let Some(finder) = &mut self.finder {
                finder.see_key(key);
            }
            self.block.push(row);
            if self.block.len() >= BLOCK_ROWS {
                self.apply_block(buffer)?;
            }
        }
        if cursor.at != end {
            return Err("bytes behind the records of a batch");
        }
        Ok(())
    }

    #[inline]
    fn make_row(&self, header: &Header, buffer: &[u8], key: &[u8], record: &Record) -> Option<Row> {
        let place = |bytes: &[u8]| bytes.as_ptr() as usize - buffer.as_ptr() as usize;
        let mut row = Row {
            key_at: place(key),
            key_size: key.len() as u32,
            value_at: record.value.map_or(0, place),
            value_size: record.value.map_or(-1, |value| value.len() as i32),
            record_type: int16(key, 0)?,
            producer_id: header.producer_id,
            is_transactional: header.is_transactional(),
            ..Row::default()
        };
        if !row.is_offset_record() {
            return Some(row);
        }
        let mut fields = Cursor { data: key, at: 2 };
        fields.string()?;
        fields.string()?;
        let name = &key[2..fields.at];
        let partition = int32(key, fields.at)?;
        row.name_size = name.len() as u32;
        let previous = self.block.last().filter(|previous| previous.is_offset_record());
        row.name_hash = match previous {
            Some(previous) if &previous.key(buffer)[2..2 + previous.name_size as usize] == name => {
                row.has_name_of_previous = true;
                previous.name_hash
            }
            _ => hash(&self.keys.hasher, name),
        };
        row.key_hash = key_hash(row.name_hash, partition);
        Some(row)
    }

    fn apply_block(&mut self, buffer: &[u8]) -> Result<(), &'static str> {
        if !self.keys.has_space(self.block.len()) {
            self.grow();
        }
        let block = std::mem::take(&mut self.block);
        // Each step loads what the next one needs. A small table stays in the cache by itself.
        let keys = &self.keys;
        let entries = || {
            let rows = block.iter().filter(|row| row.is_offset_record() && keys.entries.len() > 1 << 14);
            rows.filter_map(|row| keys.first_entry(row.key_hash))
        };
        entries().for_each(prefetch);
        entries().for_each(|entry| keys.prefetch_name(entry));
        entries().for_each(|entry| keys.prefetch_name_bytes(entry));
        let mut previous_name = None;
        for row in &block {
            self.odd_at = Some(row.key_at);
            if row.is_offset_record() {
                previous_name = Some(self.apply_offset_record(buffer, row, previous_name)?);
            } else {
                self.apply_other_record(buffer, row)?;
            }
        }
        self.odd_at = None;
        self.block = block;
        self.block.clear();
        Ok(())
    }

    fn end_piece(&mut self, batches: &Batches) -> Result<(), Stopped> {
        let applied = self.apply_block(batches.piece());
        applied.map_err(|reason| batches.place_of(self.odd_at.unwrap_or(0)).hand_over(reason))
    }

    fn grow(&mut self) {
        let pending = &self.pending;
        // The counts of a log that is followed are those of all names.
        let new_numbers = self.keys.grow(2 * BLOCK_ROWS, self.follow.is_some(), |entry| pending.has(entry));
        self.pending.renumber(&new_numbers);
        if let Some(follow) = &mut self.follow {
            follow.renumber(&new_numbers);
        }
    }

    /// Apply a commit or its tombstone. Return the number of its name.
    #[inline]
    fn apply_offset_record(
        &mut self,
        buffer: &[u8],
        row: &Row,
        previous_name: Option<u32>,
    ) -> Result<u32, &'static str> {
        let key = row.key(buffer);
        let name_end = 2 + row.name_size as usize;
        let known_name = previous_name.filter(|_| row.has_name_of_previous);
        let partition = int32(key, name_end).ok_or("an odd key")?;
        let number = self
            .keys
            .find_or_add(row.key_hash, row.name_hash, &key[2..name_end], known_name, partition)
            .ok_or("a group id or topic that is not UTF-8")?;
        let name = self.keys.entries[number as usize].name;
        let group = self.keys.group_of_name[name as usize];
        let live = match &mut self.follow {
            Some(follow) => follow.note_offset_record(buffer, row, name, group),
            None => Live::default(),
        };
        if self.newest_commit.len() <= group as usize {
            self.newest_commit.resize(group as usize + 1, NO_RECORD);
        }
        let newest_commit = &mut self.newest_commit[group as usize];
        let Some(value) = row.value(buffer) else {
            *newest_commit = (*newest_commit).max(NONE);
            self.delete(row, number);
            return Ok(name);
        };
        *newest_commit = row.offset;
        let (value, metadata) = self.read_value(row.record_type, value).ok_or("an odd value of an offset record")?;
        if let Some(follow) = &mut self.follow {
            follow.note_kind(buffer, row, value.leader_epoch, value.flags);
        }
        if row.is_pending {
            let commit = Commit {
                producer: row.producer_id,
                entry: number,
                record_offset: row.offset,
                batch_offset: row.first_offset,
                value: Value { metadata: metadata.to_vec(), ..value },
                live,
            };
            let replaced = self.pending.put(commit)?;
            if let (Some(follow), Some(replaced)) = (&mut self.follow, replaced) {
                follow.replace(&replaced.live, Fate::Superseded, row.offset, live.segment);
            }
        } else {
            self.commit(number, row.offset, row.first_offset, &value, metadata, live);
        }
        Ok(name)
    }

    /// Store the committed offset of a key, in place of the one before.
    #[inline]
    fn commit(
        &mut self,
        number: u32,
        record_offset: i64,
        batch_offset: i64,
        value: &Value,
        metadata: &[u8],
        live: Live,
    ) {
        if let Some(follow) = &mut self.follow {
            let entry = &self.keys.entries[number as usize];
            let is_replaced = entry.record_offset != NONE;
            let has_new_topic = (entry.flags & value.flags & HAS_TOPIC_ID) != 0
                && self.keys.extras[number as usize].topic_id != value.extra.topic_id;
            let step = (!has_new_topic).then(|| value.offset.wrapping_sub(entry.offset));
            let group = self.keys.group_of_name[entry.name as usize];
            let lost_epoch = is_replaced && entry.leader_epoch >= 0 && value.leader_epoch < 0;
            if lost_epoch && step.is_some_and(|step| step > 0) {
                follow.watched.insert(group); // A tool that sets an offset ahead commits no leader epoch.
            }
            follow.put_live(number, live, step, group, is_replaced, record_offset);
        }
        let entry = &mut self.keys.entries[number as usize];
        let had_extra = entry.flags != 0;
        entry.record_offset = record_offset;
        entry.batch_offset = batch_offset;
        entry.offset = value.offset;
        entry.commit_time = value.commit_time;
        entry.leader_epoch = value.leader_epoch;
        entry.flags = value.flags;
        if had_extra || value.flags != 0 {
            self.keys.extras[number as usize] = value.extra;
        }
        self.keys.store_metadata(number, metadata);
    }

    /// Apply the tombstone of a key.
    fn delete(&mut self, row: &Row, number: u32) {
        let is_classic = self.rules.is_classic;
        let was_committed = !(is_classic && row.is_pending) && self.keys.clear(number);
        let removed = match (is_classic, row.is_pending) {
            (true, true) => self.pending.remove(row.producer_id, number).into_iter().collect(),
            (true, false) => Vec::new(),
            (false, _) => self.pending.remove_all(number),
        };
        let Some(follow) = &mut self.follow else {
            return;
        };
        if was_committed {
            follow.delete_live(number, row.offset);
        }
        for commit in removed {
            follow.replace(&commit.live, Fate::Deleted, row.offset, follow.segment);
        }
    }

    /// Apply a marker. A pending commit counts only if it is newer than the committed offset.
    fn end_transaction(&mut self, producer: i64, commits: bool, marker_offset: i64) {
        for ended in self.pending.end(producer) {
            if let Some(follow) = &mut self.follow {
                follow.end(&ended.live, commits, marker_offset);
            }
            if !commits {
                continue;
            }
            let entry = &self.keys.entries[ended.entry as usize];
            let is_newer = entry.record_offset == NONE
                || if self.rules.is_classic {
                    ended.batch_offset > entry.batch_offset
                } else {
                    ended.record_offset > entry.record_offset
                };
            if is_newer {
                let metadata = &ended.value.metadata;
                self.commit(ended.entry, ended.record_offset, ended.batch_offset, &ended.value, metadata, ended.live);
            } else if let Some(follow) = &mut self.follow {
                let segment = follow.live[ended.entry as usize].segment;
                follow.replace(&ended.live, Fate::Superseded, entry.record_offset, segment);
            }
        }
    }

    fn apply_other_record(&mut self, buffer: &[u8], row: &Row) -> Result<(), &'static str> {
        let key = row.key(buffer);
        let value = row.value(buffer);
        let is_plain = row.record_type == 2 && groups::is_plain(key, value, self.rules.max_group_version);
        let rule = self.rules.type_rule(row.record_type);
        let id = groups::group_of(key).filter(|_| rule.has_group);
        let group = id.map(|id| self.keys.find_or_add_group(id));
        let newest_commit = group.map_or(NONE, |group| self.newest_commit.get(group as usize).copied().unwrap_or(NONE));
        if let Some(follow) = &mut self.follow {
            let has_commit_before = group.is_some_and(|group| newest_commit > self.others.last_offset(group));
            follow.note_other_record(buffer, row, rule, group, has_commit_before)?;
        }
        if !self.others.add(row.number, row.offset, key, value, group, newest_commit, is_plain) {
            return Err("group records that need more than 256 MiB");
        }
        Ok(())
    }

    /// Read the value of an offset record: version (int16), offset (int64), since version 3 the leader epoch (int32),
    /// metadata, commit time (int64), in version 1 an expire time (int64), in version 4 tagged fields: a topic id.
    #[inline]
    fn read_value<'v>(&self, record_type: i16, data: &'v [u8]) -> Option<(Value, &'v [u8])> {
        let mut fields = Cursor::new(data);
        let version = fields.int16()?;
        let max_version = if record_type == 0 { self.rules.max_type0_version } else { self.rules.max_offset_version };
        if version < 0 || version > max_version {
            return None;
        }
        let offset = fields.int64()?;
        let leader_epoch = if version >= 3 { fields.int32()? } else { -1 };
        let metadata = if version == 4 {
            let size = fields.short_uvarint()?.checked_sub(1)?;
            fields.take(size).filter(|_| size <= i16::MAX as usize)?
        } else {
            fields.string()?
        };
        let commit_time = fields.int64()?;
        let mut value = Value { offset, commit_time, leader_epoch, ..Value::default() };
        if version == 1 {
            let expire_time = fields.int64()?;
            if expire_time != -1 {
                value.flags = HAS_EXPIRE;
                value.extra = Extra { expire_time, topic_id: [0; 16] };
            }
        }
        if version == 4 && *fields.take(1)?.first()? != 0 {
            let topic_id = fields.take(18).filter(|tag| data[fields.at - 19] == 1 && tag[..2] == [0, 16])?;
            if self.rules.keeps_topic_ids && topic_id[2..] != [0; 16] {
                value.flags = HAS_TOPIC_ID;
                value.extra.topic_id.copy_from_slice(&topic_id[2..]);
            }
        }
        Some((value, metadata))
    }
}

/// Fold all batches up to the stop. Return the zeros of the first segment that ends with zeros. `report` is told how
/// many bytes were read, and returns whether to go on.
pub fn fold_log(
    fold: &mut Fold,
    batches: &mut Batches,
    report: &mut dyn FnMut(u64) -> bool,
) -> Result<Option<Zeros>, Stopped> {
    match fold_batches(fold, batches, report) {
        Err(Stopped::HandOver(place, NO_BATCH | WRONG_CHECKSUM)) if fold.follow.is_none() && fold.finder.is_none() => {
            fold.damage = Some((place.segment, place.position));
        }
        result => result?,
    }
    fold.end_piece(batches)?;
    Ok(batches.zeros)
}

fn fold_batches(fold: &mut Fold, batches: &mut Batches, report: &mut dyn FnMut(u64) -> bool) -> Result<(), Stopped> {
    let mut reported = Place::default();
    loop {
        match batches.read()? {
            Event::Batch { place, header, at } => {
                let added = fold.add_batch(place, &header, batches.piece(), at);
                if !added.map_err(|reason| batches.place_of(fold.odd_at.unwrap_or(at)).hand_over(reason))? {
                    return Ok(());
                }
            }
            Event::PieceEnd => {
                fold.end_piece(batches)?;
                let place = batches.place();
                let before = if place.segment == reported.segment { reported.position } else { 0 };
                reported = place;
                if !report(place.position.saturating_sub(before)) {
                    return Err(Stopped::Interrupted);
                }
                batches.read_more()?;
            }
            Event::End => return Ok(()),
        }
    }
}
