//! Decompresses the records of a batch. The formats are those of `kafkagroups/log/compression.py`.
//!
//! What is not exactly one well-formed stream is an error, so that the readable engine decides about it.

use crate::bytes::int32;
use flate2::{Decompress, FlushDecompress, Status};
use std::io::Read;

pub const DEFAULT_MAX_BATCH_BYTES: usize = 256 * 1024 * 1024;
const SNAPPY_MAGIC: &[u8] = b"\x82SNAPPY\x00";
const SNAPPY_HEADER_BYTES: usize = 16;
const TOO_LARGE: &str = "a batch decompresses beyond the limit";
const BAD: &str = "a batch cannot be decompressed";

pub fn decompress(codec: i16, data: &[u8], max_bytes: usize) -> Result<Vec<u8>, &'static str> {
    match codec {
        1 => gunzip(data, max_bytes),
        2 => unsnappy(data, max_bytes),
        3 => read_all(lz4_flex::frame::FrameDecoder::new(data), max_bytes),
        4 => read_all(zstd::stream::read::Decoder::with_buffer(data).map_err(|_| BAD)?, max_bytes),
        _ => Err("a batch has an unknown codec"),
    }
}

fn read_all(stream: impl Read, max_bytes: usize) -> Result<Vec<u8>, &'static str> {
    let mut content = Vec::new();
    stream.take(max_bytes as u64 + 1).read_to_end(&mut content).map_err(|_| BAD)?;
    if content.len() > max_bytes {
        return Err(TOO_LARGE);
    }
    Ok(content)
}

/// One gzip member of the form that Kafka's clients write: a header of ten bytes without optional fields.
fn gunzip(data: &[u8], max_bytes: usize) -> Result<Vec<u8>, &'static str> {
    if data.len() < 18 || data[..4] != [0x1F, 0x8B, 8, 0] {
        return Err(BAD);
    }
    let mut inflate = Decompress::new(false);
    let mut content = Vec::with_capacity((data.len() * 4).min(max_bytes + 1));
    loop {
        let position = 10 + inflate.total_in() as usize;
        if content.len() > max_bytes {
            return Err(TOO_LARGE);
        }
        if content.len() == content.capacity() {
            content.reserve(content.len().max(4096));
        }
        let before = (inflate.total_in(), inflate.total_out());
        let status = inflate.decompress_vec(&data[position..], &mut content, FlushDecompress::None).map_err(|_| BAD)?;
        if status == Status::StreamEnd {
            break;
        }
        let stands_still = before == (inflate.total_in(), inflate.total_out());
        if stands_still && content.len() < content.capacity() {
            return Err(BAD);
        }
    }
    if content.len() > max_bytes {
        return Err(TOO_LARGE);
    }
    let trailer = &data[10 + inflate.total_in() as usize..];
    let mut crc = flate2::Crc::new();
    crc.update(&content);
    let mut expected = crc.sum().to_le_bytes().to_vec();
    expected.extend((content.len() as u32).to_le_bytes());
    if trailer != expected {
        return Err(BAD);
    }
    Ok(content)
}

fn unsnappy(data: &[u8], max_bytes: usize) -> Result<Vec<u8>, &'static str> {
    let mut content = Vec::new();
    if !data.starts_with(SNAPPY_MAGIC) {
        add_snappy_block(&mut content, data, max_bytes)?;
        return Ok(content);
    }
    let mut position = SNAPPY_HEADER_BYTES;
    while position < data.len() {
        if data[position..].starts_with(SNAPPY_MAGIC) {
            position += SNAPPY_HEADER_BYTES;
            continue;
        }
        let size = int32(data, position).and_then(|size| usize::try_from(size).ok()).ok_or(BAD)?;
        let block = data.get(position + 4..position + 4 + size).ok_or(BAD)?;
        add_snappy_block(&mut content, block, max_bytes)?;
        position += 4 + size;
    }
    Ok(content)
}

fn add_snappy_block(content: &mut Vec<u8>, block: &[u8], max_bytes: usize) -> Result<(), &'static str> {
    let size = snap::raw::decompress_len(block).map_err(|_| BAD)?;
    if size > max_bytes - content.len() {
        return Err(TOO_LARGE);
    }
    let start = content.len();
    content.resize(start + size, 0);
    snap::raw::Decoder::new().decompress(block, &mut content[start..]).map_err(|_| BAD)?;
    Ok(())
}
