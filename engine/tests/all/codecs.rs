//! Each codec reads what Kafka wrote, and one well-formed stream only. The limit holds before memory is allocated.

use crate::hex;
use kafkagroups_engine::codec::decompress;

const LIMIT: usize = 1 << 20;
/// The record of a tombstone of group "sub-gone".
const RECORD: &str = "2400000018000200087375622d676f6e650100";
/// What a broker of 1.0.1 wrote in gzip, snappy and lz4. The second snappy is without the framing of Kafka's clients.
const WRITTEN: [(i16, &str); 4] = [
    (1, "1f8b08000000000000ff5361606090606062e0282e4dd24dcfcf4b656400000095135d13000000"),
    (2, "82534e415050590000000001000000010000001513482400000018000200087375622d676f6e650100"),
    (2, "13482400000018000200087375622d676f6e650100"),
    (3, "04224d18604082130000802400000018000200087375622d676f6e65010000000000"),
];
/// What a broker of 3.9.2 wrote.
const ZSTD: &str =
    "28b52ffd00587801005c0000002000010005682d6f6e65000174000000003000030000000000000001ffffffff0000000001a1fd6f9789\
                    00010000";

#[test]
fn kafkas_bytes_are_read() {
    for (codec, text) in WRITTEN {
        assert_eq!(decompress(codec, &hex(text), LIMIT).unwrap(), hex(RECORD), "codec {codec}");
    }
    let content = decompress(4, &hex(ZSTD), LIMIT).unwrap();
    assert_eq!(content, zstd::decode_all(&hex(ZSTD)[..]).unwrap());
    assert!(content.windows(5).any(|part| part == b"h-one"));
}

#[test]
fn a_stream_that_is_cut_or_goes_on_is_an_error() {
    for (codec, text) in WRITTEN.into_iter().chain([(4, ZSTD)]) {
        let bytes = hex(text);
        let whole = decompress(codec, &bytes, LIMIT).unwrap();
        for size in 0..bytes.len() {
            // Framed snappy has no end: it can be cut between two blocks.
            assert!(codec == 2 || decompress(codec, &bytes[..size], LIMIT).is_err(), "codec {codec}, {size} bytes");
            let mut changed = bytes.clone();
            changed[size] ^= 0x55;
            let _ = decompress(codec, &changed, LIMIT);
        }
        let longer = [&bytes[..], b"more"].concat();
        assert!(decompress(codec, &longer, LIMIT).map_or(true, |content| content == whole), "codec {codec}");
    }
}

#[test]
fn the_limit_is_the_number_of_bytes() {
    for (codec, text) in WRITTEN.into_iter().chain([(4, ZSTD)]) {
        let size = decompress(codec, &hex(text), LIMIT).unwrap().len();
        assert!(decompress(codec, &hex(text), size).is_ok());
        assert_eq!(decompress(codec, &hex(text), size - 1), Err("a batch decompresses beyond the limit"));
    }
}

#[test]
fn an_announced_size_allocates_nothing() {
    for text in ["ffffffff0f00", "82534e41505059000000000100000001000000050fffffff7f"] {
        assert!(decompress(2, &hex(text), LIMIT).is_err());
    }
    assert!(decompress(5, b"", LIMIT).is_err() && decompress(-1, b"", LIMIT).is_err());
}
