//! The keys of offset records, and what goes when the table grows.

use kafkagroups_engine::table::{hash, key_hash, Keys, NONE};

/// A name as it stands in a key: the group `g` and a topic.
fn name(topic: &str) -> Vec<u8> {
    [b"\0\x01g", &(topic.len() as u16).to_be_bytes()[..], topic.as_bytes()].concat()
}

/// Add a key and return the number of its entry.
fn add(keys: &mut Keys, topic: &str, offset: i64) -> u32 {
    if !keys.has_space(1) {
        keys.grow(1, false, |_| false);
    }
    let name = name(topic);
    let name_hash = hash(&keys.hasher, &name);
    let number = keys.find_or_add(key_hash(name_hash, 7), name_hash, &name, None, 7).unwrap();
    keys.entries[number as usize].record_offset = offset;
    number
}

#[test]
fn the_names_of_deleted_keys_are_freed() {
    let mut keys = Keys::default();
    keys.grow(1, false, |_| false);
    for number in 0..100_000 {
        add(&mut keys, &format!("live-{}", number % 10), number);
        let dead = add(&mut keys, &format!("dead-{number}"), number);
        assert!(keys.clear(dead));
    }
    assert!(keys.group_of_name.len() < 2_000, "{} names", keys.group_of_name.len());
    let live = keys.entries.iter().filter(|entry| entry.record_offset != NONE);
    let mut topics: Vec<_> = live.map(|entry| keys.group_and_topic(entry.name)).collect();
    topics.sort_unstable();
    let expected: Vec<_> = (0..10).map(|number| format!("live-{number}")).collect();
    assert_eq!(topics, expected.iter().map(|topic| ("g", topic.as_str())).collect::<Vec<_>>());
}
