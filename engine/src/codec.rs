//! Decompresses the records of a batch. The formats are those of `kafkagroups/log/compression.py`.
//!
//! What is not exactly one well-formed stream is an error, so that the readable engine decides about it.

use crate::bytes::int32;
use std::io::Read;

pub const DEFAULT_MAX_BATCH_BYTES: usize = 256 * 1024 * 1024;
const SNAPPY_MAGIC: &[u8] = b"\x82SNAPPY\x00";
const SNAPPY_HEADER_BYTES: usize = 16;
const LZ4_END_MARK: &[u8] = &[0; 4];
const TOO_LARGE: &str = "a batch decompresses beyond the limit";
const BAD: &str = "a batch cannot be decompressed";

pub fn decompress(codec: i16, data: &[u8], max_bytes: usize) -> Result<Vec<u8>, &'static str> {
    match codec {
        1 => gunzip(data, max_bytes),
        2 => unsnappy(data, max_bytes),
        3 => unlz4(data, max_bytes),
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

/// One gzip member, and nothing behind it.
fn gunzip(data: &[u8], max_bytes: usize) -> Result<Vec<u8>, &'static str> {
    let mut member = flate2::bufread::GzDecoder::new(data);
    let content = read_all(&mut member, max_bytes)?;
    member.into_inner().is_empty().then_some(content).ok_or(BAD)
}

/// One lz4 frame with its end mark, and nothing behind it. The decoder would read a second end mark if the frame has none.
fn unlz4(data: &[u8], max_bytes: usize) -> Result<Vec<u8>, &'static str> {
    let mut frame = data.chain(LZ4_END_MARK);
    let content = read_all(lz4_flex::frame::FrameDecoder::new(&mut frame), max_bytes)?;
    (frame.into_inner() == (b"", LZ4_END_MARK)).then_some(content).ok_or(BAD)
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
