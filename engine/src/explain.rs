//! The batches that concern some groups: those with their records, and the markers of producers that wrote such records.
//! And, on request, all batches of some producers.

use crate::batch::{Header, NO_PRODUCER_ID};
use crate::groups;
use crate::source::Place;
use hashbrown::HashSet;

/// Offsets that are missing because the log cleaner removed their records: the first, the last and how many.
pub type Hole = (i64, i64, i64);

pub struct BatchFinder {
    /// The group ids; empty if all batches of the producers are wanted.
    ids: HashSet<Vec<u8>, foldhash::fast::RandomState>,
    producers: HashSet<i64, foldhash::fast::RandomState>,
    newest_offset: i64,
    /// The hole since the last batch that was found.
    pub hole: Option<Hole>,
    is_found: bool,
    /// Where each batch begins, its size, and the hole before it or in it.
    pub found: Vec<(Place, usize, Option<Hole>)>,
}

impl BatchFinder {
    pub fn new(group_ids: Vec<Vec<u8>>, producers: Vec<i64>) -> Self {
        BatchFinder {
            ids: group_ids.into_iter().collect(),
            producers: producers.into_iter().collect(),
            newest_offset: -1,
            hole: None,
            is_found: false,
            found: Vec::new(),
        }
    }

    pub fn start_batch(&mut self, header: &Header) {
        self.is_found = (header.is_control() || self.ids.is_empty()) && self.producers.contains(&header.producer_id);
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
        self.is_found = self.is_found || groups::group_of(key).is_some_and(|id| self.ids.contains(id));
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
