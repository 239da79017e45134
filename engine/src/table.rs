//! The keys of offset records: group, topic and partition.
//!
//! A name is a group and a topic as they stand in a key. A key is a name and a partition. The entry of a key goes when
//! the key has no committed offset any longer and the table must grow, and so do names without entries. So the memory
//! follows the live keys, and the ids of all groups: a group that has no offset any longer can still exist.

use crate::prefetch::prefetch;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hasher};

/// A value that no record has as its offset.
pub const NONE: i64 = -1;
pub const HAS_EXPIRE: u16 = 1;
pub const HAS_TOPIC_ID: u16 = 2;
/// A cache line contains eight slots, and neighbouring partitions fill one line, so the next slot tried is elsewhere.
const SLOT_DISTANCE: usize = 9;
const FIRST_SLOTS: usize = 1 << 10;

/// The committed offset of one key, in one cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Entry {
    pub name: u32,
    pub partition: i32,
    /// NONE: the key has no committed offset.
    pub record_offset: i64,
    pub batch_offset: i64,
    pub offset: i64,
    pub commit_time: i64,
    pub metadata_at: u64,
    pub leader_epoch: i32,
    pub metadata_size: u16,
    pub flags: u16,
}

const NO_COMMIT: Entry = Entry {
    name: 0,
    partition: 0,
    record_offset: NONE,
    batch_offset: NONE,
    offset: 0,
    commit_time: 0,
    metadata_at: 0,
    leader_epoch: -1,
    metadata_size: 0,
    flags: 0,
};

/// What few commits have.
#[derive(Clone, Copy, Default)]
pub struct Extra {
    pub expire_time: i64,
    pub topic_id: [u8; 16],
}

struct Place {
    at: usize,
    size: u32,
    hash: u64,
}

/// Texts by their numbers, each of them once.
#[derive(Default)]
pub struct Texts {
    bytes: Vec<u8>,
    places: Vec<Place>,
    table: HashTable<u32>,
}

impl Texts {
    pub fn count(&self) -> usize {
        self.places.len()
    }

    #[inline]
    pub fn get(&self, number: u32) -> &[u8] {
        let place = &self.places[number as usize];
        &self.bytes[place.at..place.at + place.size as usize]
    }

    /// The number of a text, and whether it is new.
    pub fn find_or_add(&mut self, hash: u64, text: &[u8]) -> (u32, bool) {
        if let Some(number) = self.table.find(hash, |number| self.get(*number) == text) {
            return (*number, false);
        }
        let number = self.places.len() as u32;
        self.places.push(Place { at: self.bytes.len(), size: text.len() as u32, hash });
        self.bytes.extend_from_slice(text);
        let places = &self.places;
        self.table.insert_unique(hash, number, |other| places[*other as usize].hash);
        (number, true)
    }
}

pub fn hash(hasher: &RandomState, bytes: &[u8]) -> u64 {
    let mut state = hasher.build_hasher();
    state.write(bytes);
    state.finish()
}

/// The hash of a key. Eight neighbouring partitions of a topic are often used together, so they share a cache line.
#[inline]
pub fn key_hash(name_hash: u64, partition: i32) -> u64 {
    let mut hashed = (name_hash ^ (partition >> 3) as u64).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    hashed ^= hashed >> 32;
    (hashed << 3) | ((hashed >> 58).wrapping_add(partition as u64) & 7)
}

#[derive(Default)]
pub struct Keys {
    pub hasher: RandomState,
    pub groups: Texts,
    names: Texts,
    /// By name: the number of its group.
    pub group_of_name: Vec<u32>,
    pub entries: Vec<Entry>,
    pub extras: Vec<Extra>,
    /// The metadata of all committed offsets, with bytes that are no longer used.
    pub metadata: Vec<u8>,
    unused_bytes: usize,
    /// The upper half of a key's hash and, below, the number of its entry plus one; 0 is a free slot.
    slots: Vec<u64>,
}

impl Keys {
    /// The group id and the topic of a name.
    pub fn group_and_topic(&self, name: u32) -> (&str, &str) {
        let bytes = self.names.get(name);
        let group_end = 2 + u16::from_be_bytes([bytes[0], bytes[1]]) as usize;
        let text = |bytes| std::str::from_utf8(bytes).unwrap_or("");
        (text(&bytes[2..group_end]), text(&bytes[group_end + 2..]))
    }

    pub fn group_of(&self, entry: &Entry) -> u32 {
        self.group_of_name[entry.name as usize]
    }

    #[inline]
    pub fn prefetch_slot(&self, key_hash: u64) {
        prefetch(&self.slots[key_hash as usize & (self.slots.len() - 1)]);
    }

    /// The entry in the first slot of a hash: most often that of its key.
    #[inline]
    pub fn first_entry(&self, key_hash: u64) -> Option<&Entry> {
        let slot = self.slots[key_hash as usize & (self.slots.len() - 1)];
        (slot != 0).then(|| &self.entries[(slot as u32 - 1) as usize])
    }

    #[inline]
    pub fn prefetch_name(&self, entry: &Entry) {
        prefetch(&self.names.places[entry.name as usize]);
    }

    #[inline]
    pub fn prefetch_name_bytes(&self, entry: &Entry) {
        prefetch(&self.names.bytes[self.names.places[entry.name as usize].at]);
    }

    /// The number of the entry of a key, which is added if it is new. `None` if the name of a new key is not UTF-8.
    ///
    /// `known_name` is the name's number if the record before has the same name.
    #[inline]
    pub fn find_or_add(
        &mut self,
        key_hash: u64,
        name_hash: u64,
        name: &[u8],
        known_name: Option<u32>,
        partition: i32,
    ) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let tag = key_hash >> 32;
        let mut at = key_hash as usize & mask;
        while self.slots[at] != 0 {
            if self.slots[at] >> 32 == tag {
                let number = self.slots[at] as u32 - 1;
                let entry = &self.entries[number as usize];
                let is_same = entry.partition == partition
                    && match known_name {
                        Some(known) => entry.name == known,
                        None => self.names.get(entry.name) == name,
                    };
                if is_same {
                    return Some(number);
                }
            }
            at = (at + SLOT_DISTANCE) & mask;
        }
        let name = match known_name {
            Some(known) => known,
            None => self.find_or_add_name(name_hash, name)?,
        };
        let number = self.entries.len() as u32;
        self.slots[at] = (tag << 32) | (number + 1) as u64;
        self.entries.push(Entry { name, partition, ..NO_COMMIT });
        self.extras.push(Extra::default());
        Some(number)
    }

    fn find_or_add_name(&mut self, name_hash: u64, name: &[u8]) -> Option<u32> {
        let group_end = 2 + u16::from_be_bytes([name[0], name[1]]) as usize;
        let (group_id, topic) = (&name[2..group_end], &name[group_end + 2..]);
        std::str::from_utf8(group_id).and(std::str::from_utf8(topic)).ok()?;
        let (number, is_new) = self.names.find_or_add(name_hash, name);
        if is_new {
            let group = self.find_or_add_group(group_id);
            self.group_of_name.push(group);
        }
        Some(number)
    }

    pub fn find_or_add_group(&mut self, group_id: &[u8]) -> u32 {
        self.groups.find_or_add(hash(&self.hasher, group_id), group_id).0
    }

    /// Whether `new` more keys fit. If not, call `grow`.
    pub fn has_space(&self, new: usize) -> bool {
        (self.entries.len() + new) * 2 <= self.slots.len()
    }

    /// Make space for at least `new` more keys, and for half as many as there are. Entries that are not needed go; return the new number of each one that stays.
    pub fn grow(&mut self, new: usize, keeps_names: bool, is_needed: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut new_numbers = vec![u32::MAX; self.entries.len()];
        let mut kept = 0;
        for (number, new_number) in new_numbers.iter_mut().enumerate() {
            let is_live = self.entries[number].record_offset != NONE;
            if is_live || is_needed(number as u32) {
                *new_number = kept as u32;
                self.entries[kept] = self.entries[number];
                self.extras[kept] = self.extras[number];
                kept += 1;
            }
        }
        self.entries.truncate(kept);
        self.extras.truncate(kept);
        if !keeps_names && self.names.count() > 2 * kept {
            self.drop_names();
        }
        let size = ((kept + kept / 2 + new) * 4).next_power_of_two().max(FIRST_SLOTS);
        self.slots.clear();
        self.slots.resize(size, 0);
        for number in 0..kept {
            let entry = &self.entries[number];
            let hashed = key_hash(self.names.places[entry.name as usize].hash, entry.partition);
            let mut at = hashed as usize & (size - 1);
            while self.slots[at] != 0 {
                at = (at + SLOT_DISTANCE) & (size - 1);
            }
            self.slots[at] = ((hashed >> 32) << 32) | (number + 1) as u64;
        }
        new_numbers
    }

    /// Keep only the names of entries, with new numbers.
    fn drop_names(&mut self) {
        let names = std::mem::take(&mut self.names);
        let groups = std::mem::take(&mut self.group_of_name);
        for entry in &mut self.entries {
            let old = entry.name as usize;
            let (number, is_new) = self.names.find_or_add(names.places[old].hash, names.get(entry.name));
            if is_new {
                self.group_of_name.push(groups[old]);
            }
            entry.name = number;
        }
    }

    /// Store the metadata of a committed offset, over the old bytes if they are not shorter.
    pub fn store_metadata(&mut self, number: u32, metadata: &[u8]) {
        let entry = &mut self.entries[number as usize];
        let old_size = entry.metadata_size as usize;
        if old_size == 0 && metadata.is_empty() {
            return;
        }
        if old_size < metadata.len() {
            self.unused_bytes += old_size;
            entry.metadata_at = self.metadata.len() as u64;
            self.metadata.extend_from_slice(metadata);
        } else {
            self.metadata[entry.metadata_at as usize..][..metadata.len()].copy_from_slice(metadata);
            self.unused_bytes += old_size - metadata.len();
        }
        self.entries[number as usize].metadata_size = metadata.len() as u16;
        if self.unused_bytes > 1 << 16 && self.unused_bytes > self.metadata.len() / 2 {
            self.compact_metadata();
        }
    }

    /// Forget the committed offset of a key. Return whether it had one.
    pub fn clear(&mut self, number: u32) -> bool {
        let entry = &mut self.entries[number as usize];
        self.unused_bytes += std::mem::take(&mut entry.metadata_size) as usize;
        std::mem::replace(&mut entry.record_offset, NONE) != NONE
    }

    fn compact_metadata(&mut self) {
        let old = std::mem::take(&mut self.metadata);
        for entry in &mut self.entries {
            let at = entry.metadata_at as usize;
            entry.metadata_at = self.metadata.len() as u64;
            self.metadata.extend_from_slice(&old[at..][..entry.metadata_size as usize]);
        }
        self.unused_bytes = 0;
    }

    pub fn metadata_of(&self, entry: &Entry) -> &[u8] {
        &self.metadata[entry.metadata_at as usize..][..entry.metadata_size as usize]
    }
}
