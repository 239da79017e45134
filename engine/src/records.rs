//! Every record of a log as columns, for the tables `records` and `fates`. The log must have been folded before.

use crate::batch::{self, Header, Record, NO_PRODUCER_ID};
use crate::bytes::{int16, int32, int64, Cursor};
use crate::columns::Table;
use crate::fold::Rules;
use crate::source::{Batches, Event, Stopped};

/// The columns, in this order: those of the table, `control_type` in place of `control`, and the sizes of key and value.
#[rustfmt::skip]
pub const NAMES: [&str; 19] = [
    "offset", "timestamp_ms", "batch_offset", "producer_id", "producer_epoch", "transactional", "control_type", "type",
    "is_read", "key_bytes", "value_bytes", "group", "topic", "topic_partition", "member_id", "value_version",
    "committed_offset", "key", "value",
];

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
    pub fn read(&mut self, max_rows: usize, max_bytes: usize) -> Result<Option<Table>, Stopped> {
        let mut table = Table::default();
        let mut bytes = 0;
        while self.batches_left > 0 && table.rows < max_rows && bytes < max_bytes {
            match self.batches.read()? {
                Event::End => break,
                Event::PieceEnd => self.batches.read_more()?,
                Event::Batch { place, header, at } => {
                    let batch = &self.batches.piece()[at..at + header.size];
                    bytes += add_batch(&mut table, &self.rules, self.next_offset, &header, batch, self.with_content)
                        .map_err(|reason| place.hand_over(reason))?;
                    self.next_offset = header.last_offset + 1;
                    self.batches_left -= 1;
                }
            }
        }
        Ok((table.rows > 0).then_some(table))
    }
}

/// Add the records of a batch. Return the bytes of its keys and values.
fn add_batch(
    table: &mut Table,
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
        add_record(table, rules, header, &record, with_content).ok_or("an odd key or value")?;
        bytes += record.end - record.start;
    }
    Ok(bytes)
}

fn add_record(table: &mut Table, rules: &Rules, header: &Header, record: &Record, with_content: bool) -> Option<()> {
    let key = record.key?;
    let control_type = if header.is_control() { Some(batch::control_type(record)?) } else { None };
    let record_type = if header.is_control() { None } else { Some(int16(key, 0)?) };
    let has_producer = header.producer_id != NO_PRODUCER_ID;
    let rule = record_type.map(|number| rules.type_rule(number)).unwrap_or_default();
    let mut fields = Cursor { data: key, at: 2 };
    let is_offset_record = matches!(record_type, Some(0 | 1));
    // The group id of a record that the coordinator does not read may be cut off.
    let group = if is_offset_record || rule.has_group { fields.string() } else { None };
    let topic = if is_offset_record { Some(fields.string()?) } else { None };
    let member = if rule.has_member && rule.is_read { Some(fields.string()?) } else { None };
    for text in [group, topic, member].into_iter().flatten() {
        std::str::from_utf8(text).ok()?;
    }
    let version = match record.value {
        Some(value) if is_offset_record => Some(int16(value, 0)?),
        Some(value) if rule.is_read => Some(int16(value, 0)?.clamp(0, rule.newest_version)),
        _ => None,
    };
    let committed_offset = match record.value {
        Some(value) if is_offset_record => Some(int64(value, 2)?),
        _ => None,
    };
    table.column().int64(Some(header.base_offset.wrapping_add(record.offset_delta)));
    table.column().int64(Some(header.timestamp_of(record)));
    table.column().int64(Some(header.base_offset));
    table.column().int64(has_producer.then_some(header.producer_id));
    table.column().int32(has_producer.then_some(header.producer_epoch.into()));
    table.column().int32(Some(header.is_transactional().into()));
    table.column().int32(control_type.map(i32::from));
    table.column().int32(record_type.map(i32::from));
    table.column().int32(Some(rule.is_read.into()));
    table.column().int32(Some(key.len() as i32));
    table.column().int32(record.value.map(|value| value.len() as i32));
    table.column().text(group);
    table.column().text(topic);
    table.column().int32(if is_offset_record { Some(int32(key, fields.at)?) } else { None });
    table.column().text(member);
    table.column().int32(version.map(i32::from));
    table.column().int64(committed_offset);
    if with_content {
        table.column().text(Some(key));
        table.column().text(record.value);
    }
    table.end_row();
    Some(())
}
