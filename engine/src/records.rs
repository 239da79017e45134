//! Every record of a log as columns, for the tables `records` and `fates`. The log must have been folded before.

use crate::batch::{self, Header, Record, NO_PRODUCER_ID};
use crate::bytes::{int16, int32, int64, Cursor};
use crate::columns::Column;
use crate::fold::Rules;
use crate::source::{Batches, Event, Stopped};

/// The columns, by the names of the table, with `control_type` in place of `control`, and the sizes of key and value.
#[derive(Default)]
pub struct Columns {
    pub rows: usize,
    pub offset: Column,
    pub timestamp_ms: Column,
    pub batch_offset: Column,
    pub producer_id: Column,
    pub producer_epoch: Column,
    pub transactional: Column,
    pub control_type: Column,
    pub record_type: Column,
    pub is_read: Column,
    pub group: Column,
    pub topic: Column,
    pub topic_partition: Column,
    pub key: Column,
    pub value: Column,
    pub value_version: Column,
    pub member_id: Column,
    pub committed_offset: Column,
    pub key_bytes: Column,
    pub value_bytes: Column,
}

pub struct RecordReader {
    rules: Rules,
    batches: Batches,
    /// How many batches the load has read.
    batches_left: u64,
    next_offset: i64,
    /// Whether the bytes of keys and values are wanted.
    with_content: bool,
}

impl RecordReader {
    pub fn new(rules: Rules, batches: Batches, batch_count: u64, with_content: bool) -> Self {
        RecordReader { rules, batches, batches_left: batch_count, next_offset: 0, with_content }
    }

    /// The next records: whole batches, until there are `max_rows` records or `max_bytes` bytes.
    pub fn read(&mut self, max_rows: usize, max_bytes: usize) -> Result<Option<Columns>, Stopped> {
        let mut columns = Columns::default();
        let mut bytes = 0;
        while self.batches_left > 0 && columns.rows < max_rows && bytes < max_bytes {
            match self.batches.read()? {
                Event::End => break,
                Event::PieceEnd => self.batches.read_more()?,
                Event::Batch { place, header, at } => {
                    let batch = &self.batches.piece()[at..at + header.size];
                    bytes += add_batch(&mut columns, &self.rules, self.next_offset, &header, batch, self.with_content)
                        .map_err(|reason| place.hand_over(reason))?;
                    self.next_offset = header.last_offset + 1;
                    self.batches_left -= 1;
                }
            }
        }
        Ok((columns.rows > 0).then_some(columns))
    }
}

/// Add the records of a batch. Return the bytes of its keys and values.
fn add_batch(
    columns: &mut Columns,
    rules: &Rules,
    next_offset: i64,
    header: &Header,
    batch: &[u8],
    with_content: bool,
) -> Result<usize, &'static str> {
    let content = batch::records_of(batch, header, next_offset, rules.max_batch_bytes)?;
    let mut cursor = Cursor::new(&content);
    let mut bytes = 0;
    for _ in 0..header.count {
        let record = batch::next_record(&mut cursor).ok_or("an odd record")?;
        add_record(columns, rules, header, &record, with_content).ok_or("an odd key or value")?;
        bytes += record.end - record.start;
    }
    columns.rows += header.count;
    Ok(bytes)
}

fn add_record(
    columns: &mut Columns,
    rules: &Rules,
    header: &Header,
    record: &Record,
    with_content: bool,
) -> Option<()> {
    let key = record.key?;
    let control_type = match header.is_control() {
        true => Some(batch::control_type(record)?),
        false => None,
    };
    let record_type = match control_type {
        Some(_) => None,
        None => Some(int16(key, 0)?),
    };
    let has_producer = header.producer_id != NO_PRODUCER_ID;
    columns.offset.int64(Some(header.base_offset.wrapping_add(record.offset_delta)));
    columns.timestamp_ms.int64(Some(header.timestamp_of(record)));
    columns.batch_offset.int64(Some(header.base_offset));
    columns.producer_id.int64(has_producer.then_some(header.producer_id));
    columns.producer_epoch.int32(has_producer.then_some(header.producer_epoch.into()));
    columns.transactional.int32(Some(header.is_transactional().into()));
    columns.control_type.int32(control_type.map(i32::from));
    columns.record_type.int32(record_type.map(i32::from));
    columns.key_bytes.int32(Some(key.len() as i32));
    columns.value_bytes.int32(record.value.map(|value| value.len() as i32));
    if with_content {
        columns.key.text(Some(key));
        columns.value.text(record.value);
    }
    let rule = record_type.map(|number| rules.type_rule(number)).unwrap_or_default();
    columns.is_read.int32(Some(rule.is_read.into()));
    let mut fields = Cursor { data: key, at: 2 };
    let is_offset_record = matches!(record_type, Some(0 | 1));
    let has_group = is_offset_record || rule.has_group;
    let group = if has_group { Some(fields.string()?) } else { None };
    let topic = if is_offset_record { Some(fields.string()?) } else { None };
    let member = if rule.has_member && !is_offset_record { Some(fields.string()?) } else { None };
    for text in [group, topic, member].into_iter().flatten() {
        std::str::from_utf8(text).ok()?;
    }
    columns.group.text(group);
    columns.topic.text(topic);
    columns.member_id.text(member.filter(|_| rule.is_read));
    columns.topic_partition.int32(if is_offset_record { Some(int32(key, fields.at)?) } else { None });
    let version = match record.value {
        Some(value) if is_offset_record || rule.is_read => Some(int16(value, 0)?),
        _ => None,
    };
    let version = version.map(|version| if is_offset_record { version } else { version.clamp(0, rule.newest_version) });
    columns.value_version.int32(version.map(i32::from));
    columns.committed_offset.int64(match record.value {
        Some(value) if is_offset_record => Some(int64(value, 2)?),
        _ => None,
    });
    Some(())
}
