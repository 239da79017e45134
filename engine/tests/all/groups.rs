//! Group records: which ones a coordinator can certainly read, and which of them are kept.

use crate::hex;
use kafkagroups_engine::groups::{group_of, is_plain, read_members, OtherRecords};

const KEY: &[u8] = b"\0\x02\0\x01g";
/// Version 3, protocol type "consumer", generation 1, protocol "range", leader "m", a time; one member "m" with the
/// subscription of topic "t".
const VALUE: &str = "00030008636f6e73756d6572000000010005\
                     72616e676500016d000000000000000500000001\
                     00016dffff0001630002\
                     2f68000003e8000007d0\
                     000000110001000000010001740000000000000000\
                     00000000";

#[test]
fn a_value_that_is_cut_is_not_plain() {
    let value = hex(VALUE);
    assert!(is_plain(KEY, Some(&value), 3));
    for size in 0..value.len() {
        assert!(!is_plain(KEY, Some(&value[..size]), 3), "{size} bytes");
    }
    let members = read_members(&value, 3).unwrap();
    assert_eq!(members.ids, [(None, &b"m"[..])]);
}

#[test]
fn versions_that_the_coordinator_does_not_read_are_not_plain() {
    let value = hex(VALUE);
    assert!(!is_plain(KEY, Some(&value), 2));
    let newer = [b"\0\x04", &value[2..]].concat();
    assert!(!is_plain(KEY, Some(&newer), 4));
}

#[test]
fn a_tombstone_is_plain_if_its_group_is_a_text() {
    assert!(is_plain(KEY, None, 3));
    assert!(!is_plain(b"\0\x02\0\x01\xff", None, 3) && !is_plain(b"\0\x02\0\x02g", None, 3));
    assert_eq!((group_of(KEY), group_of(b"\0\x02\0"), group_of(b"")), (Some(&b"g"[..]), None, None));
}

#[test]
fn a_member_that_occurs_twice_is_not_plain() {
    let value = hex(VALUE);
    let start = value.len() - (hex("00016dffff00016300022f68000003e8000007d0").len() + 4 + 17 + 4);
    let mut twice = [&value[..], &value[start..]].concat();
    assert!(read_members(&twice, 3).is_some_and(|members| members.ids.len() == 1));
    twice[start - 1] = 2;
    assert!(read_members(&twice, 3).is_some_and(|members| members.ids.len() == 2 && !members.is_plain));
}

#[test]
fn many_small_records_fill_the_memory_as_a_few_large_ones_do() {
    let mut others = OtherRecords::default();
    let full = (0..3 << 20).find(|number| !others.add(*number, *number as i64, KEY, None, Some(0), -1, false));
    assert!(full.is_some_and(|number| number > 1 << 20));
}

#[test]
fn a_plain_record_takes_the_place_of_the_plain_one_before_it() {
    let mut others = OtherRecords::default();
    let mut add = |number, value: &[u8], is_plain| {
        assert!(others.add(number, number as i64, KEY, Some(value), Some(0), -1, is_plain));
        others.rows.iter().map(|row| row.number).collect::<Vec<_>>()
    };
    assert_eq!(add(0, b"a", true), [0]);
    assert_eq!(add(1, b"longer", true), [1]);
    assert_eq!(add(2, b"odd", false), [1, 2]);
    assert_eq!(add(3, b"b", true), [1, 2, 3]);
    assert_eq!(add(4, b"c", true), [1, 2, 4]);
}
