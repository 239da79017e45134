//! Numbers and texts: every read checks the bounds, and moves only over bytes that exist.

use crate::hex;
use kafkagroups_engine::bytes::Cursor;

fn varint(text: &str) -> Option<i64> {
    Cursor::new(&hex(text)).varint()
}

#[test]
fn varints_are_zigzag_in_at_most_five_bytes() {
    let known = [("00", 0), ("01", -1), ("02", 1), ("7f", -64), ("8001", 64), ("feffffff0f", i32::MAX as i64)];
    for (text, number) in known {
        assert_eq!(varint(text), Some(number));
    }
    assert_eq!(varint("ffffffff0f"), Some(i32::MIN as i64));
    assert_eq!(varint("8080808000"), Some(0), "more bytes than needed");
    assert_eq!(varint("808080808000"), None, "six bytes");
    assert_eq!(varint("80"), None);
    assert_eq!(varint(""), None);
}

#[test]
fn varlongs_have_64_bits_in_at_most_ten_bytes() {
    let varlong = |text: &str| Cursor::new(&hex(text)).varlong();
    assert_eq!(varlong("ffffffffffffffffff01"), Some(i64::MIN));
    assert_eq!(varlong("feffffffffffffffff01"), Some(i64::MAX));
    assert_eq!(varlong("8080808080808080808000"), None);
}

#[test]
fn a_field_that_is_cut_moves_nothing() {
    let bytes = hex("0003666f6fffff0000000461626364");
    for size in 0..bytes.len() {
        let mut fields = Cursor::new(&bytes[..size]);
        let read = (fields.string(), fields.nullable_string(), fields.long_bytes());
        assert!(read.2.is_none() && fields.at <= size);
    }
    let mut fields = Cursor::new(&bytes);
    assert_eq!(fields.string(), Some(&b"foo"[..]));
    assert_eq!(fields.nullable_string(), Some(None));
    assert_eq!(fields.long_bytes(), Some(&b"abcd"[..]));
    assert_eq!(fields.take(usize::MAX), None);
    assert_eq!(fields.at, bytes.len());
}
