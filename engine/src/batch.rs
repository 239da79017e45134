//! One batch of magic 2: its header, its checks and its records.
//!
//! The layout is in `kafkagroups/log/batch.py`. Only what Kafka's coordinators and cleaners write is read here;
//! any other bytes are handed over to the readable engine.

use crate::bytes::{int16, int32, int64, Cursor};
use crate::codec;
use std::borrow::Cow;

pub const HEADER_SIZE: usize = 61;
/// The bytes before the part that the field `length` counts.
pub const LOG_OVERHEAD: usize = 12;
const CRC_FROM: usize = 21;
const CODEC: i16 = 0x07;
const LOG_APPEND_TIME: i16 = 0x08;
const TRANSACTIONAL: i16 = 0x10;
const CONTROL: i16 = 0x20;
const DELETE_HORIZON: i16 = 0x40;
pub const NO_TIMESTAMP: i64 = -1;
pub const NO_PRODUCER_ID: i64 = -1;
/// A compressed batch may have this many records, or one for each 256 bytes of the limit if these are more.
const MIN_RECORD_LIMIT: usize = 1 << 20;
const MEMORY_BYTES_PER_RECORD: usize = 256;

#[derive(Clone, Copy, Debug)]
pub struct Header {
    pub base_offset: i64,
    pub last_offset: i64,
    /// Bytes of the whole batch on disk.
    pub size: usize,
    pub attributes: i16,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub count: usize,
}

impl Header {
    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    pub fn has_delete_horizon(&self) -> bool {
        self.attributes & DELETE_HORIZON != 0
    }

    pub fn timestamp_of(&self, record: &Record) -> i64 {
        if self.attributes & LOG_APPEND_TIME != 0 {
            return self.max_timestamp;
        }
        self.base_timestamp.wrapping_add(record.timestamp_delta)
    }
}

/// What stands at a position of a segment.
pub enum Found {
    Batch(Header),
    /// The batch goes on after the bytes that were read so far; it needs at least this many bytes.
    NeedsBytes(usize),
    /// No batch of magic 2: zeros, damage or an older format.
    Other,
}

/// Look at the header at `at`. `has_end` says that the segment ends where `data` ends.
pub fn find(data: &[u8], at: usize, has_end: bool, max_content_bytes: usize) -> Result<Found, &'static str> {
    let available = data.len() - at;
    if available < HEADER_SIZE {
        return Ok(if has_end { Found::Other } else { Found::NeedsBytes(HEADER_SIZE) });
    }
    let Some(header) = parse_header(&data[at..at + HEADER_SIZE]) else {
        return Ok(Found::Other);
    };
    if header.size - HEADER_SIZE > max_content_bytes.max(codec::DEFAULT_MAX_BATCH_BYTES) {
        return Err("a batch is larger than the limit");
    }
    if header.size > available {
        return Ok(if has_end { Found::Other } else { Found::NeedsBytes(header.size) });
    }
    Ok(Found::Batch(header))
}

/// Read a header of 61 bytes: `None` if it is not one of magic 2.
fn parse_header(data: &[u8]) -> Option<Header> {
    let base_offset = int64(data, 0)?;
    let length = int32(data, 8)?;
    if length < (HEADER_SIZE - LOG_OVERHEAD) as i32 || data[16] != 2 {
        return None;
    }
    let count = int32(data, 57)?;
    Some(Header {
        base_offset,
        last_offset: base_offset.wrapping_add(int32(data, 23)? as i64),
        size: length as usize + LOG_OVERHEAD,
        attributes: int16(data, 21)?,
        base_timestamp: int64(data, 27)?,
        max_timestamp: int64(data, 35)?,
        producer_id: int64(data, 43)?,
        producer_epoch: int16(data, 51)?,
        // A negative count becomes one that no batch reaches.
        count: usize::try_from(count).unwrap_or(usize::MAX),
    })
}

/// Check the checksum of a whole batch.
pub fn has_right_crc(batch: &[u8]) -> bool {
    int32(batch, CRC_FROM - 4).map(|crc| crc as u32) == Some(crc_fast::crc32_iscsi(&batch[CRC_FROM..]))
}

/// Check what must be true before the records are read, and return their bytes without compression.
pub fn records_of<'a>(
    batch: &'a [u8],
    header: &Header,
    next_offset: i64,
    max_batch_bytes: usize,
) -> Result<Cow<'a, [u8]>, &'static str> {
    let offsets_rise = header.base_offset >= next_offset && header.last_offset >= header.base_offset;
    if !offsets_rise || header.last_offset == i64::MAX {
        return Err("the offsets of the batches do not rise");
    }
    let mut content = Cow::Borrowed(&batch[HEADER_SIZE..]);
    let codec = header.attributes & CODEC;
    if codec != 0 {
        if header.count > MIN_RECORD_LIMIT.max(max_batch_bytes / MEMORY_BYTES_PER_RECORD) {
            return Err("a compressed batch has too many records");
        }
        content = Cow::Owned(codec::decompress(codec, &content, max_batch_bytes)?);
    }
    if header.count > content.len() {
        return Err("a batch has more records than bytes");
    }
    Ok(content)
}

/// One record. `start` and `end` are its place in the content of its batch.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    pub start: usize,
    pub end: usize,
    pub timestamp_delta: i64,
    pub offset_delta: i64,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
}

/// Read the next record. `None` if it has headers, which Kafka writes nowhere in this topic, or another odd layout.
#[inline(always)]
pub fn next_record<'a>(content: &mut Cursor<'a>) -> Option<Record<'a>> {
    let start = content.at;
    let size = content.varint()?;
    let end = content.at.checked_add(usize::try_from(size).ok().filter(|size| *size > 0)?)?;
    let mut fields = Cursor { data: content.data.get(..end)?, at: content.at + 1 };
    let timestamp_delta = fields.varlong()?;
    let offset_delta = fields.varint()?;
    let key = read_part(&mut fields)?;
    let value = read_part(&mut fields)?;
    let header_count = fields.varint()?;
    if header_count != 0 || fields.at != end {
        return None;
    }
    content.at = end;
    Some(Record { start, end, timestamp_delta, offset_delta, key, value })
}

#[inline(always)]
fn read_part<'a>(fields: &mut Cursor<'a>) -> Option<Option<&'a [u8]>> {
    match usize::try_from(fields.varint()?) {
        Ok(size) => fields.take(size).map(Some),
        Err(_) => Some(None),
    }
}

/// The type of a control record (0 abort, 1 commit) from its key.
pub fn control_type(record: &Record) -> Option<i16> {
    let key = record.key?;
    int16(key, 0).filter(|version| *version >= 0)?;
    int16(key, 2)
}
