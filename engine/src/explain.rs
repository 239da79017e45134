//! The batches that concern one group: those with its records, and the markers of producers that wrote such records.
//! And the batches of some producers.

use crate::batch::{Header, NO_PRODUCER_ID};
use crate::source::{Batches, Event, Place, Segment, Stopped};
use hashbrown::HashSet;

/// Offsets that are missing because the log cleaner removed their records: the first, the last and how many.
pub type Hole = (i64, i64, i64);

pub struct GroupFinder {
    /// The group id after its size, as it stands in a key.
    id: Vec<u8>,
    producers: HashSet<i64, foldhash::fast::RandomState>,
    newest_offset: i64,
    /// The hole since the last batch that was found.
    hole: Option<Hole>,
    is_found: bool,
    /// Where each batch begins, its size, and the hole before it or in it.
    pub found: Vec<(Place, usize, Option<Hole>)>,
}

impl GroupFinder {
    pub fn new(group_id: &[u8]) -> Self {
        let mut id = (group_id.len() as u16).to_be_bytes().to_vec();
        id.extend_from_slice(group_id);
        GroupFinder {
            id,
            producers: HashSet::default(),
            newest_offset: -1,
            hole: None,
            is_found: false,
            found: Vec::new(),
        }
    }

    /// The hole after the last batch that was found.
    pub fn last_hole(&self) -> Option<Hole> {
        self.hole
    }

    pub fn start_batch(&mut self, header: &Header) {
        self.is_found = header.is_control() && self.producers.contains(&header.producer_id);
        if header.base_offset > self.newest_offset {
            let before = header.base_offset - 1 - self.newest_offset;
            self.add_hole(self.newest_offset + 1, header.base_offset - 1, before);
            let inside = header.last_offset - header.base_offset + 1 - header.count as i64;
            self.add_hole(header.base_offset, header.last_offset, inside);
        }
        self.newest_offset = self.newest_offset.max(header.last_offset);
    }

    fn add_hole(&mut self, first: i64, last: i64, missing: i64) {
        if missing > 0 {
            let (first, _, before) = self.hole.unwrap_or((first, last, 0));
            self.hole = Some((first, last, before + missing));
        }
    }

    #[inline]
    pub fn see_key(&mut self, key: &[u8]) {
        self.is_found = self.is_found || key.get(2..).is_some_and(|rest| rest.starts_with(&self.id));
    }

    pub fn end_batch(&mut self, place: Place, header: &Header) {
        if !self.is_found {
            return;
        }
        // In the classic coordinator the bit alone makes a batch transactional, even without a producer id.
        if !header.is_control() && (header.producer_id != NO_PRODUCER_ID || header.is_transactional()) {
            self.producers.insert(header.producer_id);
        }
        self.found.push((place, header.size, self.hole.take()));
    }
}

/// Find the batches of some producers, up to the one that begins at `last_offset`, with their sizes.
pub fn find_batches_of(
    segments: Vec<Segment>,
    producers: &std::collections::HashSet<i64>,
    last_offset: i64,
    max_batch_bytes: usize,
) -> Result<Vec<(Place, usize)>, Stopped> {
    let mut found = Vec::new();
    let mut batches = Batches::new(segments, max_batch_bytes)?;
    loop {
        match batches.read()? {
            Event::PieceEnd => batches.read_more()?,
            Event::Batch { header, .. } if header.base_offset > last_offset => return Ok(found),
            Event::Batch { place, header, .. } if producers.contains(&header.producer_id) => {
                found.push((place, header.size));
            }
            Event::Batch { .. } => {}
            Event::End => return Ok(found),
        }
    }
}
