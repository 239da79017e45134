//! The keys of offset records: group, topic and partition.
//!
//! A name is a group and a topic as they stand in a key. A key is a name and a partition. Ids of groups and names are
//! kept for the whole log. The entry of a key goes when the key has no committed offset any longer and the table must
//! grow, so the memory follows the live keys.

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

/// What few commits have.
#[derive(Clone, Copy, Default)]
pub struct Extra {
    pub expire_time: i64,
    pub topic_id: [u8; 16],
}

pub struct Name {
    pub at: usize,
    pub size: u32,
    pub group: u32,
    hash: u64,
}

/// The texts of one kind, each once: an id by its bytes.
#[derive(Default)]
pub struct Texts {
    pub bytes: Vec<u8>,
    pub places: Vec<(usize, u32)>,
    table: HashTable<u32>,
}

impl Texts {
    pub fn get(&self, number: u32) -> &[u8] {
        let (at, size) = self.places[number as usize];
        &self.bytes[at..at + size as usize]
    }

    pub fn find(&self, text: &[u8], hasher: &RandomState) -> Option<u32> {
        self.table.find(hash(hasher, text), |number| self.get(*number) == text).copied()
    }

    pub fn find_or_add(&mut self, text: &[u8], hasher: &RandomState) -> u32 {
        if let Some(number) = self.find(text, hasher) {
            return number;
        }
        let number = self.places.len() as u32;
        self.places.push((self.bytes.len(), text.len() as u32));
        self.bytes.extend_from_slice(text);
        let (bytes, places) = (&self.bytes, &self.places);
        self.table.insert_unique(hash(hasher, text), number, |other| {
            let (at, size) = places[*other as usize];
            hash(hasher, &bytes[at..at + size as usize])
        });
        number
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
    hashed << 3 | (hashed >> 58).wrapping_add(partition as u64) & 7
}

pub struct Keys {
    pub hasher: RandomState,
    pub groups: Texts,
    pub names: Vec<Name>,
    name_bytes: Vec<u8>,
    name_table: HashTable<u32>,
    pub entries: Vec<Entry>,
    pub extras: Vec<Extra>,
    /// The metadata of all committed offsets, with bytes that are no longer used.
    pub metadata: Vec<u8>,
    unused_bytes: usize,
    /// The upper half of a key's hash and, below, the number of its entry plus one; 0 is a free slot.
    slots: Vec<u64>,
}

impl Default for Keys {
    fn default() -> Self {
        Keys {
            hasher: RandomState::default(),
            groups: Texts::default(),
            names: Vec::new(),
            name_bytes: Vec::new(),
            name_table: HashTable::new(),
            entries: Vec::new(),
            extras: Vec::new(),
            metadata: Vec::new(),
            unused_bytes: 0,
            slots: vec![0; FIRST_SLOTS],
        }
    }
}

impl Keys {
    pub fn name_bytes(&self, name: &Name) -> &[u8] {
        &self.name_bytes[name.at..name.at + name.size as usize]
    }

    /// The group id and the topic of a name.
    pub fn group_and_topic(&self, name: u32) -> (&str, &str) {
        let name = &self.names[name as usize];
        let bytes = self.name_bytes(name);
        let group_size = self.groups.places[name.group as usize].1 as usize;
        let text = |bytes| std::str::from_utf8(bytes).unwrap_or("");
        (text(&bytes[2..2 + group_size]), text(&bytes[4 + group_size..]))
    }

    #[inline]
    pub fn prefetch_slot(&self, key_hash: u64) {
        prefetch(&self.slots[key_hash as usize & (self.slots.len() - 1)]);
    }

    /// The entry in the first slot of a hash: most often that of its key.
    #[inline]
    fn first_entry(&self, key_hash: u64) -> Option<&Entry> {
        let slot = self.slots[key_hash as usize & (self.slots.len() - 1)];
        (slot != 0).then(|| &self.entries[(slot as u32 - 1) as usize])
    }

    #[inline]
    pub fn prefetch_entry(&self, key_hash: u64) {
        if let Some(entry) = self.first_entry(key_hash) {
            prefetch(entry);
        }
    }

    #[inline]
    pub fn prefetch_name(&self, key_hash: u64) {
        if let Some(entry) = self.first_entry(key_hash) {
            prefetch(&self.names[entry.name as usize]);
        }
    }

    #[inline]
    pub fn prefetch_name_bytes(&self, key_hash: u64) {
        if let Some(entry) = self.first_entry(key_hash) {
            prefetch(&self.name_bytes[self.names[entry.name as usize].at]);
        }
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
                        None => self.name_bytes(&self.names[entry.name as usize]) == name,
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
        self.slots[at] = tag << 32 | (number + 1) as u64;
        self.entries.push(Entry {
            name,
            partition,
            record_offset: NONE,
            batch_offset: NONE,
            offset: 0,
            commit_time: 0,
            metadata_at: 0,
            leader_epoch: -1,
            metadata_size: 0,
            flags: 0,
        });
        self.extras.push(Extra::default());
        Some(number)
    }

    fn find_or_add_name(&mut self, name_hash: u64, name: &[u8]) -> Option<u32> {
        if let Some(number) =
            self.name_table.find(name_hash, |number| self.name_bytes(&self.names[*number as usize]) == name)
        {
            return Some(*number);
        }
        let group_end = 2 + u16::from_be_bytes([name[0], name[1]]) as usize;
        std::str::from_utf8(&name[2..group_end]).ok()?;
        std::str::from_utf8(&name[group_end + 2..]).ok()?;
        let group = self.groups.find_or_add(&name[2..group_end], &self.hasher);
        let number = self.names.len() as u32;
        let at = self.name_bytes.len();
        self.name_bytes.extend_from_slice(name);
        self.names.push(Name { at, size: name.len() as u32, group, hash: name_hash });
        let names = &self.names;
        self.name_table.insert_unique(name_hash, number, |other| names[*other as usize].hash);
        Some(number)
    }

    /// Whether `new` more keys fit. If not, call `grow`.
    pub fn has_space(&self, new: usize) -> bool {
        (self.entries.len() + new) * 2 <= self.slots.len()
    }

    /// Make space for `new` more keys. Entries that are not needed go; return the new number of each one that stays.
    pub fn grow(&mut self, new: usize, is_needed: impl Fn(u32) -> bool) -> Vec<u32> {
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
        let size = ((kept + new) * 4).next_power_of_two().max(FIRST_SLOTS);
        self.slots.clear();
        self.slots.resize(size, 0);
        for number in 0..kept {
            let entry = &self.entries[number];
            let hashed = key_hash(self.names[entry.name as usize].hash, entry.partition);
            let mut at = hashed as usize & (size - 1);
            while self.slots[at] != 0 {
                at = (at + SLOT_DISTANCE) & (size - 1);
            }
            self.slots[at] = (hashed >> 32) << 32 | (number + 1) as u64;
        }
        new_numbers
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
            let at = entry.metadata_at as usize;
            self.metadata[at..at + metadata.len()].copy_from_slice(metadata);
            self.unused_bytes += old_size - metadata.len();
        }
        self.entries[number as usize].metadata_size = metadata.len() as u16;
        if self.unused_bytes > 1 << 16 && self.unused_bytes > self.metadata.len() / 2 {
            self.compact_metadata();
        }
    }

    fn compact_metadata(&mut self) {
        let old = std::mem::take(&mut self.metadata);
        for entry in &mut self.entries {
            // What a deleted key leaves stays unused.
            let size = if entry.record_offset == NONE { 0 } else { entry.metadata_size as usize };
            let at = entry.metadata_at as usize;
            entry.metadata_at = self.metadata.len() as u64;
            entry.metadata_size = size as u16;
            self.metadata.extend_from_slice(&old[at..at + size]);
        }
        self.unused_bytes = 0;
    }

    pub fn metadata_of(&self, entry: &Entry) -> &[u8] {
        &self.metadata[entry.metadata_at as usize..][..entry.metadata_size as usize]
    }
}
