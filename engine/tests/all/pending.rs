//! Commits that wait for the marker of their producer.

use kafkagroups_engine::pending::{Commit, Pending, Value};

fn commit(producer: i64, entry: u32, record_offset: i64) -> Commit {
    let value = Value { offset: record_offset, ..Value::default() };
    Commit { producer, entry, record_offset, batch_offset: record_offset, value, live: Default::default() }
}

fn offsets(commits: Vec<Commit>) -> Vec<i64> {
    commits.iter().map(|commit| commit.record_offset).collect()
}

#[test]
fn a_later_commit_of_the_same_producer_replaces_the_earlier_one() {
    let mut pending = Pending::default();
    assert!(pending.put(commit(7, 0, 1)).unwrap().is_none());
    assert!(pending.put(commit(8, 0, 2)).unwrap().is_none());
    assert_eq!(pending.put(commit(7, 0, 3)).unwrap().unwrap().record_offset, 1);
    assert_eq!(offsets(pending.end(7)), [3]);
    assert!(offsets(pending.end(7)).is_empty());
    assert!(pending.has(0));
    assert_eq!(offsets(pending.end(8)), [2]);
    assert!(!pending.has(0) && !pending.has(9));
}

#[test]
fn a_transaction_ends_in_the_order_of_its_first_commits() {
    let mut pending = Pending::default();
    for (entry, offset) in [(4, 1), (0, 2), (9, 3), (0, 4)] {
        pending.put(commit(7, entry, offset)).unwrap();
    }
    assert_eq!(offsets(pending.end(7)), [1, 4, 3]);
}

#[test]
fn tombstones_remove_commits_of_one_or_all_producers() {
    let mut pending = Pending::default();
    for (producer, entry, offset) in [(7, 0, 1), (8, 0, 2), (7, 1, 3), (9, 0, 4)] {
        pending.put(commit(producer, entry, offset)).unwrap();
    }
    assert_eq!(pending.remove(8, 0).unwrap().record_offset, 2);
    assert!(pending.remove(8, 0).is_none() && pending.remove(8, 99).is_none());
    let mut removed = offsets(pending.remove_all(0));
    removed.sort_unstable();
    assert_eq!(removed, [1, 4]);
    assert!(pending.remove_all(99).is_empty());
    pending.put(commit(8, 1, 5)).unwrap();
    assert_eq!(offsets(pending.end(7)), [3]);
    assert_eq!(pending.iter().map(|commit| commit.record_offset).collect::<Vec<_>>(), [5]);
}

#[test]
fn entries_get_new_numbers() {
    let mut pending = Pending::default();
    pending.put(commit(7, 0, 1)).unwrap();
    pending.put(commit(7, 2, 2)).unwrap();
    pending.renumber(&[1, u32::MAX, 0]);
    assert!(pending.has(0) && pending.has(1) && !pending.has(2));
    assert_eq!(pending.remove(7, 0).unwrap().record_offset, 2);
    assert_eq!(offsets(pending.end(7)), [1]);
}

#[test]
fn an_entry_without_commits_needs_no_new_number() {
    let mut pending = Pending::default();
    pending.put(commit(7, 0, 1)).unwrap();
    pending.put(commit(7, 1, 2)).unwrap();
    pending.remove_all(0);
    pending.renumber(&[u32::MAX, 0]);
    pending.renumber(&[0]);
    assert_eq!(offsets(pending.end(7)), [2]);
}
