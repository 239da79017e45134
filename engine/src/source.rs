//! The batches of a log, segment by segment and piece by piece. A file is read, never mapped: a mapped file that another
//! process truncates would end this process.

use crate::batch::{self, Found, Header};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

const PIECE_BYTES: usize = 1 << 20;
/// A function that returns the bytes of a segment that is not a file of this machine.
type Loader = Box<dyn Fn() -> io::Result<Vec<u8>> + Send + Sync>;

pub enum Bytes {
    File(PathBuf),
    Loader(Loader),
}

/// One segment of a log: its bytes, and the range of them that belongs to the log.
pub struct Segment {
    pub bytes: Bytes,
    /// The offset in its name.
    pub base_offset: i64,
    pub start: u64,
    pub end: Option<u64>,
}

/// Reasons to hand over: the log can end here, because its bytes are damaged.
pub const WRONG_CHECKSUM: &str = "a batch has a wrong checksum";
pub const NO_BATCH: &str = "bytes that are no batch of magic 2";

/// Why a log is not read to its end.
#[derive(Debug)]
pub enum Stopped {
    /// The log is unusual here: the readable engine must answer.
    HandOver(Place, &'static str),
    /// The file cannot be read, or has changed while it was read.
    Failed(Place, io::Error),
    /// The caller's progress function raised an error.
    Interrupted,
}

/// A segment by its index, and a position in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    pub segment: usize,
    pub position: u64,
}

impl Place {
    pub fn hand_over(self, reason: &'static str) -> Stopped {
        Stopped::HandOver(self, reason)
    }
}

/// The zeros at the end of a segment: its index, the position of the first zero, and their number.
pub type Zeros = (usize, u64, u64);

pub enum Event {
    /// A whole batch with a right checksum. It begins at `at` in the piece.
    Batch {
        place: Place,
        header: Header,
        at: usize,
    },
    /// The bytes of the piece go away with the next `read_more`.
    PieceEnd,
    End,
}

/// Reads the batches of a log in order. After each `PieceEnd`, the caller calls `read_more`.
pub struct Batches {
    segments: Vec<Segment>,
    max_batch_bytes: usize,
    index: usize,
    source: Source,
    /// Where the next batch begins in the piece, and the bytes that it needs if the piece is too short.
    at: usize,
    wanted: usize,
    pub zeros: Option<Zeros>,
}

impl Batches {
    pub fn new(segments: Vec<Segment>, max_batch_bytes: usize) -> Result<Self, Stopped> {
        let source = Source::default();
        let mut batches = Batches { segments, max_batch_bytes, index: 0, source, at: 0, wanted: 0, zeros: None };
        batches.open()?;
        Ok(batches)
    }

    /// The bytes that are read now.
    pub fn piece(&self) -> &[u8] {
        &self.source.buffer
    }

    /// Where the next batch begins.
    pub fn place(&self) -> Place {
        self.place_of(self.at)
    }

    /// Where a byte of the piece is.
    pub fn place_of(&self, at: usize) -> Place {
        Place { segment: self.index, position: self.source.position + at as u64 }
    }

    fn failed(&self) -> impl Fn(io::Error) -> Stopped {
        let place = self.place();
        move |error| Stopped::Failed(place, error)
    }

    fn open(&mut self) -> Result<(), Stopped> {
        self.at = 0;
        if let Some(segment) = self.segments.get(self.index) {
            self.source = Source::open(segment).map_err(self.failed())?;
        }
        Ok(())
    }

    pub fn read(&mut self) -> Result<Event, Stopped> {
        if self.index == self.segments.len() {
            return Ok(Event::End);
        }
        let place = self.place();
        if self.at == self.source.buffer.len() {
            self.wanted = 0;
            return Ok(Event::PieceEnd);
        }
        let has_end = self.source.is_at_end();
        let found = batch::find(&self.source.buffer, self.at, has_end, self.max_batch_bytes);
        match found.map_err(|reason| place.hand_over(reason))? {
            Found::NeedsBytes(size) => {
                self.wanted = size;
                Ok(Event::PieceEnd)
            }
            Found::Other => {
                self.wanted = usize::MAX;
                Ok(Event::PieceEnd)
            }
            Found::Batch(header) => {
                let at = self.at;
                if !batch::has_right_crc(&self.source.buffer[at..at + header.size]) {
                    return Err(place.hand_over(WRONG_CHECKSUM));
                }
                if header.last_offset < self.segments[self.index].base_offset {
                    return Err(place.hand_over("an offset below the one in the segment's name"));
                }
                self.at += header.size;
                Ok(Event::Batch { place, header, at })
            }
        }
    }

    /// Go on behind the piece: with its rest and more bytes of the segment, or with the next segment.
    pub fn read_more(&mut self) -> Result<(), Stopped> {
        let place = self.place();
        let is_other = self.wanted == usize::MAX;
        self.source.skip(self.at);
        self.at = 0;
        if is_other {
            let count = self.source.count_zeros().map_err(self.failed())?;
            let count = count.ok_or(place.hand_over(NO_BATCH))?;
            self.zeros = self.zeros.or(Some((place.segment, place.position, count)));
        } else if !self.source.is_at_end() {
            return self.source.read(self.wanted).map_err(self.failed());
        }
        self.index += 1;
        self.open()
    }
}

/// One segment that is read in pieces: `buffer` is the piece, which begins at `position`.
#[derive(Default)]
struct Source {
    file: Option<File>,
    buffer: Vec<u8>,
    position: u64,
    end: u64,
}

impl Source {
    fn open(segment: &Segment) -> io::Result<Self> {
        let mut source = Source { position: segment.start, ..Source::default() };
        let wanted_end = segment.end.unwrap_or(u64::MAX);
        match &segment.bytes {
            Bytes::Loader(load) => {
                let mut bytes = load()?;
                bytes.truncate(usize::try_from(wanted_end).unwrap_or(usize::MAX));
                source.end = segment.start.max(bytes.len() as u64);
                bytes.drain(..(segment.start as usize).min(bytes.len()));
                source.buffer = bytes;
            }
            Bytes::File(path) => {
                let mut file = File::open(path)?;
                let metadata = file.metadata()?;
                if !metadata.is_file() {
                    return Err(io::Error::other("not a regular file"));
                }
                source.end = wanted_end.min(metadata.len()).max(segment.start);
                file.seek(SeekFrom::Start(segment.start))?;
                source.file = Some(file);
                source.read(0)?;
            }
        }
        Ok(source)
    }

    fn is_at_end(&self) -> bool {
        self.position + self.buffer.len() as u64 >= self.end
    }

    fn skip(&mut self, bytes: usize) {
        self.buffer.drain(..bytes);
        self.position += bytes as u64;
    }

    /// Read the next piece behind the bytes of `buffer`, at least `wanted` bytes with these, if the file has them.
    fn read(&mut self, wanted: usize) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let kept = self.buffer.len();
        let left = self.end - self.position - kept as u64;
        let size = PIECE_BYTES.max(wanted.saturating_sub(kept)).min(usize::try_from(left).unwrap_or(usize::MAX));
        if file.take(size as u64).read_to_end(&mut self.buffer)? < size {
            return Err(io::Error::other("the file became shorter while it was read"));
        }
        Ok(())
    }

    /// The number of zeros up to the end of the segment; `None` if another byte is among them.
    fn count_zeros(&mut self) -> io::Result<Option<u64>> {
        let start = self.position;
        loop {
            if self.buffer.iter().any(|byte| *byte != 0) {
                return Ok(None);
            }
            self.skip(self.buffer.len());
            if self.position >= self.end {
                return Ok(Some(self.position - start));
            }
            self.read(0)?;
        }
    }
}
