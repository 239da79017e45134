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

#[derive(Default)]
pub struct Pending {
    /// By entry: the commits of its key, each of another producer.
    of_entry: Vec<Vec<Commit>>,
    /// By producer id: the entries that it has committed, in the order of its first commit of each. A tombstone leaves
    /// an entry in this list.
    producers: HashMap<i64, Vec<u32>, foldhash::fast::RandomState>,
}

impl Pending {
    /// Add a commit. Return the older one of the same producer and key, which it replaces. An error: hand over.
    pub fn put(&mut self, commit: Commit) -> Result<Option<Commit>, &'static str> {
        let entry = commit.entry as usize;
        if self.of_entry.len() <= entry {
            self.of_entry.resize_with(entry + 1, Vec::new);
        }
        let commits = &mut self.of_entry[entry];
        if let Some(older) = commits.iter_mut().find(|other| other.producer == commit.producer) {
            return Ok(Some(std::mem::replace(older, commit)));
        }
        if commits.len() == MAX_PRODUCERS_OF_KEY {
            return Err("many open transactions have a commit of one key");
        }
        commits.reserve_exact(1);
        self.producers.entry(commit.producer).or_default().push(commit.entry);
        commits.push(commit);
        Ok(None)
    }

    /// Remove the commit of a key by one producer.
    pub fn remove(&mut self, producer: i64, entry: u32) -> Option<Commit> {
        let commits = self.of_entry.get_mut(entry as usize)?;
        let place = commits.iter().position(|commit| commit.producer == producer)?;
        Some(commits.swap_remove(place))
    }

    /// Remove the commits of a key by all producers.
    pub fn remove_all(&mut self, entry: u32) -> Vec<Commit> {
        self.of_entry.get_mut(entry as usize).map(std::mem::take).unwrap_or_default()
    }

    /// Remove all commits of a producer, in the order in which it first committed each key.
    pub fn end(&mut self, producer: i64) -> Vec<Commit> {
        let entries = self.producers.remove(&producer).unwrap_or_default();
        entries.into_iter().filter_map(|entry| self.remove(producer, entry)).collect()
    }

    pub fn has(&self, entry: u32) -> bool {
        self.of_entry.get(entry as usize).is_some_and(|commits| !commits.is_empty())
    }

    pub fn iter(&self) -> impl Iterator<Item = &Commit> {
        self.of_entry.iter().flatten()
    }

    /// Write the new numbers of the entries, after the table has grown.
    pub fn renumber(&mut self, new_numbers: &[u32]) {
        for (old, mut commits) in std::mem::take(&mut self.of_entry).into_iter().enumerate() {
            for mut commit in commits.drain(..) {
                commit.entry = new_numbers[old];
                self.of_entry.resize_with(self.of_entry.len().max(commit.entry as usize + 1), Vec::new);
                self.of_entry[commit.entry as usize].push(commit);
            }
        }
        for entries in self.producers.values_mut() {
            entries.retain(|entry| new_numbers[*entry as usize] != u32::MAX);
            entries.iter_mut().for_each(|entry| *entry = new_numbers[*entry as usize]);
        }
    }
}
