//! The commits of open transactions: each waits for the marker of its producer.

use crate::follow::Live;
use crate::table::Extra;
use hashbrown::HashMap;

/// If more producers have a pending commit of one key, the log is handed over: their list is searched one by one.
const MAX_PRODUCERS_OF_KEY: usize = 64;

/// What the value of a commit says.
#[derive(Clone, Default)]
pub struct Value {
    pub offset: i64,
    pub commit_time: i64,
    pub leader_epoch: i32,
    pub flags: u16,
    pub extra: Extra,
    pub metadata: Vec<u8>,
}

#[derive(Clone)]
pub struct Commit {
    pub producer: i64,
    pub entry: u32,
    pub record_offset: i64,
    pub batch_offset: i64,
    pub value: Value,
    pub live: Live,
}

struct Slot {
    commit: Option<Commit>,
    /// The slot of the next pending commit of the same key, plus one; 0 ends the list.
    next: u32,
}

#[derive(Default)]
pub struct Pending {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// By entry: the first slot of its list, plus one.
    first_of_entry: Vec<u32>,
    /// By producer id: its slots, in the order of its first commit of each key. A slot can have gone to another commit.
    producers: HashMap<i64, Vec<u32>, foldhash::fast::RandomState>,
}

impl Pending {
    /// Add a commit. Return the older one of the same producer and key, which it replaces. An error: hand over.
    pub fn put(&mut self, commit: Commit) -> Result<Option<Commit>, &'static str> {
        let entry = commit.entry as usize;
        if self.first_of_entry.len() <= entry {
            self.first_of_entry.resize(entry + 1, 0);
        }
        let mut next = self.first_of_entry[entry];
        let mut count = 0;
        while next != 0 {
            let slot = &mut self.slots[next as usize - 1];
            next = slot.next;
            count += 1;
            if slot.commit.as_ref().is_some_and(|other| other.producer == commit.producer) {
                return Ok(slot.commit.replace(commit));
            }
        }
        if count == MAX_PRODUCERS_OF_KEY {
            return Err("many open transactions have a commit of one key");
        }
        let producer = commit.producer;
        let slot = Slot { commit: Some(commit), next: self.first_of_entry[entry] };
        let number = match self.free.pop() {
            Some(number) => {
                self.slots[number as usize] = slot;
                number
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        };
        self.first_of_entry[entry] = number + 1;
        self.producers.entry(producer).or_default().push(number);
        Ok(None)
    }

    /// Remove the commit of a key by one producer.
    pub fn remove(&mut self, producer: i64, entry: u32) -> Option<Commit> {
        let mut before = None;
        let mut next = *self.first_of_entry.get(entry as usize)?;
        while next != 0 {
            let number = next - 1;
            let slot = &self.slots[number as usize];
            let after = slot.next;
            if slot.commit.as_ref().is_some_and(|commit| commit.producer == producer) {
                match before {
                    None => self.first_of_entry[entry as usize] = after,
                    Some(before) => self.slots[before as usize].next = after,
                }
                self.free.push(number);
                return self.slots[number as usize].commit.take();
            }
            before = Some(number);
            next = after;
        }
        None
    }

    /// Remove the commits of a key by all producers.
    pub fn remove_all(&mut self, entry: u32) -> Vec<Commit> {
        let mut removed = Vec::new();
        let Some(first) = self.first_of_entry.get_mut(entry as usize) else {
            return removed;
        };
        let mut next = std::mem::take(first);
        while next != 0 {
            let slot = &mut self.slots[next as usize - 1];
            removed.extend(slot.commit.take());
            self.free.push(next - 1);
            next = slot.next;
        }
        removed
    }

    /// Remove all commits of a producer, in the order in which it first committed each key.
    pub fn end(&mut self, producer: i64) -> Vec<Commit> {
        let numbers = self.producers.remove(&producer).unwrap_or_default();
        let mut ended = Vec::with_capacity(numbers.len());
        for number in numbers {
            let entry = match &self.slots[number as usize].commit {
                Some(commit) if commit.producer == producer => commit.entry,
                _ => continue,
            };
            ended.extend(self.remove(producer, entry));
        }
        ended
    }

    pub fn has(&self, entry: u32) -> bool {
        self.first_of_entry.get(entry as usize).is_some_and(|first| *first != 0)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Commit> {
        self.slots.iter().filter_map(|slot| slot.commit.as_ref())
    }

    /// Write the new numbers of the entries, after the table has grown.
    pub fn renumber(&mut self, new_numbers: &[u32]) {
        let mut first_of_entry = vec![0; new_numbers.len()];
        for (old, first) in self.first_of_entry.iter().enumerate() {
            if *first != 0 {
                first_of_entry[new_numbers[old] as usize] = *first;
            }
        }
        self.first_of_entry = first_of_entry;
        for slot in &mut self.slots {
            if let Some(commit) = &mut slot.commit {
                commit.entry = new_numbers[commit.entry as usize];
            }
        }
    }
}
