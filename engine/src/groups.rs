//! The records that are not offset records, without those that a later record of their group certainly replaces.
//!
//! A group record (type 2) contains the whole state of a classic group. If the coordinator can certainly read it, it is
//! called plain, and it takes the place of the plain record before it. Any other record may fail, or mean something
//! else after the records before it: it stays, and it closes the place of its group for later records.

use crate::bytes::Cursor;
use crate::table::NONE;

/// The load is handed over if the kept records take more memory than this.
const MAX_KEPT_BYTES: usize = 256 << 20;
/// What a kept record takes besides its key and its value: its fields, and the allocator's part of two allocations.
const ROW_BYTES: usize = size_of::<OtherRecord>() + 32;
/// Each member id is compared with all others, so a plain record has few members.
const MAX_MEMBERS: usize = 64;

pub struct OtherRecord {
    pub number: u64,
    pub offset: i64,
    /// The newest commit of the group between its record before and this one; NONE if there is none. It creates the
    /// group if the group does not exist.
    pub commit_before: i64,
    pub key: Vec<u8>,
    pub value: Option<Vec<u8>>,
    pub is_plain: bool,
    is_closed: bool,
}

/// What is known of the group of a key.
#[derive(Clone, Copy)]
struct Place {
    row: u32,
    last_offset: i64,
}

#[derive(Default)]
pub struct OtherRecords {
    pub rows: Vec<OtherRecord>,
    /// By the number of the group: its newest row, and the offset of its newest record.
    places: Vec<Option<Place>>,
    kept_bytes: usize,
    /// Rows with a lower number are closed, because a record without a group came later.
    closed_before: u64,
}

/// The bytes of the group id, with which every key of the topic begins after its type.
pub fn group_of(key: &[u8]) -> Option<&[u8]> {
    let mut fields = Cursor { data: key, at: 2 };
    fields.string()
}

impl OtherRecords {
    /// The offset of the newest record of a group that is no offset record.
    pub fn last_offset(&self, group: u32) -> i64 {
        self.places.get(group as usize).copied().flatten().map_or(NONE, |place| place.last_offset)
    }

    /// Add a record. `group` is `None` if the key has no group id, `newest_commit` that of the group. Return whether
    /// the kept records still fit into memory.
    #[allow(clippy::too_many_arguments)]
    pub fn add(
        &mut self,
        number: u64,
        offset: i64,
        key: &[u8],
        value: Option<&[u8]>,
        group: Option<u32>,
        newest_commit: i64,
        is_plain: bool,
    ) -> bool {
        let size = key.len() + value.map_or(0, <[u8]>::len);
        let mut commit_before = NONE;
        let mut replaced = None;
        match group {
            None => self.closed_before = number,
            Some(group) => {
                if self.places.len() <= group as usize {
                    self.places.resize(group as usize + 1, None);
                }
                if let Some(place) = self.places[group as usize] {
                    let row = &mut self.rows[place.row as usize];
                    row.is_closed |= !is_plain || row.number < self.closed_before;
                    replaced = (!row.is_closed).then_some(place.row);
                }
                if newest_commit > self.last_offset(group) {
                    commit_before = newest_commit;
                }
            }
        }
        let row = replaced.unwrap_or(self.rows.len() as u32);
        if let Some(group) = group {
            self.places[group as usize] = Some(Place { row, last_offset: offset });
        }
        match replaced {
            Some(row) => {
                let row = &mut self.rows[row as usize];
                self.kept_bytes += size;
                self.kept_bytes -= row.key.len() + row.value.as_ref().map_or(0, Vec::len);
                row.number = number;
                row.offset = offset;
                row.commit_before = commit_before;
                key.clone_into(&mut row.key);
                // The old bytes keep their memory, because most groups write values of one size.
                match (&mut row.value, value) {
                    (Some(old), Some(new)) => new.clone_into(old),
                    (old, new) => *old = new.map(<[u8]>::to_vec),
                }
            }
            None => {
                self.kept_bytes += size + ROW_BYTES;
                self.rows.push(OtherRecord {
                    number,
                    offset,
                    commit_before,
                    key: key.to_vec(),
                    value: value.map(<[u8]>::to_vec),
                    is_plain,
                    is_closed: !is_plain,
                });
            }
        }
        self.kept_bytes <= MAX_KEPT_BYTES
    }
}

/// Whether a group record (type 2) is plain. `max_version` is the highest value version that the coordinator reads.
pub fn is_plain(key: &[u8], value: Option<&[u8]>, max_version: i16) -> bool {
    let has_text = group_of(key).is_some_and(|group| std::str::from_utf8(group).is_ok());
    has_text && value.is_none_or(|value| read_members(value, max_version).is_some_and(|group| group.is_plain))
}

/// The members of a plain group record, each with its instance id and its member id.
pub struct Members<'a> {
    pub is_plain: bool,
    pub ids: Vec<(Option<&'a [u8]>, &'a [u8])>,
}

/// Read the value of a group record. The fields are those of `GroupMetadataValue` up to version 3.
pub fn read_members(value: &[u8], max_version: i16) -> Option<Members<'_>> {
    let mut fields = Cursor::new(value);
    let version = fields.int16()?;
    if version < 0 || version > max_version.min(3) {
        return None;
    }
    let protocol_type = fields.string()?;
    fields.int32()?; // generation
    let protocol = fields.nullable_string()?;
    fields.nullable_string()?; // leader
    if version >= 2 {
        fields.int64()?; // the time of the state
    }
    let count = usize::try_from(fields.int32()?).ok()?;
    // A coordinator reads subscriptions only if the protocol type is "consumer" and a protocol was chosen.
    let reads_subscriptions = protocol_type == b"consumer" && protocol.is_some();
    let mut members = Members { is_plain: count <= MAX_MEMBERS, ids: Vec::new() };
    for _ in 0..count {
        let member_id = fields.string()?;
        let instance_id = if version >= 3 { fields.nullable_string()? } else { None };
        fields.string()?; // client id
        fields.string()?; // client host
        fields.take(if version >= 1 { 8 } else { 4 })?; // timeouts
        let subscription = fields.long_bytes()?;
        fields.long_bytes()?; // assignment
        let has_readable_subscription = !reads_subscriptions || is_plain_subscription(subscription).is_some();
        members.is_plain = members.is_plain
            && has_readable_subscription
            && members.ids.iter().all(|(other_instance, other_member)| {
                *other_member != member_id && (instance_id.is_none() || *other_instance != instance_id)
            });
        members.ids.push((instance_id, member_id));
    }
    Some(members)
}

/// A subscription whose version, topics and user data can be read. Newer versions only add fields behind them.
fn is_plain_subscription(data: &[u8]) -> Option<()> {
    let mut fields = Cursor::new(data);
    fields.int16()?;
    let topics = usize::try_from(fields.int32()?).ok()?;
    if topics > data.len() {
        return None;
    }
    for _ in 0..topics {
        fields.string()?;
    }
    let user_data = fields.int32()?;
    (i64::from(user_data) <= (data.len() - fields.at) as i64).then_some(())
}
