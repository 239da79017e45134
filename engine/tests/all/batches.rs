//! Batches and whole logs: what is cut or changed is handed over, ends the log or is read, and never panics.

use crate::hex;
use kafkagroups_engine::batch::{self, Found};
use kafkagroups_engine::fold::{fold_log, Fold, Rules};
use kafkagroups_engine::follow::Follow;
use kafkagroups_engine::source::{Batches, Bytes, Segment, Stopped};

/// A batch of a commit of group "g" to t-0, with a right checksum.
const PLAIN: &str = "00000000000000000000006100000000026e4ec9bb00000000000000000000000000000000000000000000ffffffffffffff\
                     ffffffffffffff000000015e00000022000100016700066f7264657273000000003000030000000000000000ffffffff0000\
                     000000000000000000";
/// What a broker of 1.0.1 wrote: the tombstone of a group, in gzip, at offset 19.
const GZIP: &str =
    "000000000000001300000058000000000274f7ab1a000100000000000001a1fd640cfc000001a1fd640cfcffffffffffffffffffff\
                    ffffffff000000011f8b08000000000000ff5361606090606062e0282e4dd24dcfcf4b656400000095135d13000000";

fn rules() -> Rules {
    Rules {
        is_classic: true,
        max_offset_version: 4,
        max_type0_version: 4,
        max_group_version: 4,
        keeps_topic_ids: false,
        needs_marker: false,
        last_offset: i64::MAX,
        last_time: i64::MAX,
        max_batch_bytes: 1 << 20,
        start_offset: 0,
        types: Vec::new(),
    }
}

/// Fold one segment. Return the number of batches and of committed keys, and the zeros at the end.
fn fold(data: Vec<u8>, rules: Rules) -> Result<(u64, usize, Option<u64>), Stopped> {
    let bytes = Bytes::Loader(Box::new(move || Ok(data.clone())));
    let mut batches =
        Batches::new(vec![Segment { bytes, base_offset: 0, start: 0, end: None }], rules.max_batch_bytes)?;
    let mut fold = Fold::new(rules);
    fold.follow = Some(Follow::new(1, 0, true));
    let zeros = fold_log(&mut fold, &mut batches, &mut |_| true)?;
    let committed = fold.keys.entries.iter().filter(|entry| entry.record_offset >= 0).count();
    Ok((fold.batches, committed, zeros.map(|zeros| zeros.2)))
}

fn log() -> Vec<u8> {
    [hex(PLAIN), hex(GZIP)].concat()
}

#[test]
fn a_header_says_how_many_bytes_it_needs() {
    let plain = hex(PLAIN);
    for size in 0..plain.len() {
        match batch::find(&plain[..size], 0, false, 1 << 20) {
            Ok(Found::NeedsBytes(needed)) => assert!(needed > size && needed <= plain.len()),
            _ => panic!("a batch of {size} bytes"),
        }
        assert!(matches!(batch::find(&plain[..size], 0, true, 1 << 20), Ok(Found::Other)));
    }
    let Ok(Found::Batch(header)) = batch::find(&plain, 0, true, 1 << 20) else { panic!("no batch") };
    assert_eq!((header.base_offset, header.last_offset, header.size, header.count), (0, 0, plain.len(), 1));
    assert!(batch::has_right_crc(&plain) && !header.is_control() && !header.is_transactional());
}

#[test]
fn a_log_is_folded() {
    assert_eq!(fold(log(), rules()).unwrap(), (2, 1, None));
    assert_eq!(fold([log(), vec![0; 100]].concat(), rules()).unwrap(), (2, 1, Some(100)));
    assert_eq!(fold(log(), Rules { last_offset: 18, ..rules() }).unwrap(), (1, 1, None));
    assert_eq!(fold(Vec::new(), rules()).unwrap(), (0, 0, None));
}

#[test]
fn a_log_that_is_cut_anywhere_is_handed_over_at_the_batch() {
    let whole = log();
    let first = hex(PLAIN).len();
    for size in 1..whole.len() {
        match fold(whole[..size].to_vec(), rules()) {
            Err(Stopped::HandOver(place, _)) => assert_eq!(place.position, if size < first { 0 } else { first as u64 }),
            Ok((1, 1, None)) => assert_eq!(size, first),
            Ok((_, _, Some(zeros))) => assert!(zeros < 12, "an offset and a length begin with zeros"),
            other => panic!("{size} bytes: {other:?}"),
        }
    }
}

#[test]
fn any_changed_byte_is_read_or_handed_over() {
    for at in 0..log().len() {
        for bit in 0..8 {
            for mends in [false, true] {
                let mut changed = log();
                changed[at] ^= 1 << bit;
                if mends {
                    mend(&mut changed, 0, hex(PLAIN).len());
                    mend(&mut changed, hex(PLAIN).len(), log().len());
                }
                let result = fold(changed, rules());
                assert!(matches!(result, Ok(_) | Err(Stopped::HandOver(..))), "byte {at}, bit {bit}: {result:?}");
            }
        }
    }
}

/// Write the right checksum of the batch at these positions.
fn mend(data: &mut [u8], start: usize, end: usize) {
    let crc = crc_fast::crc32_iscsi(&data[start + 21..end]);
    data[start + 17..start + 21].copy_from_slice(&crc.to_be_bytes());
}
