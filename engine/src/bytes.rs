//! Big-endian numbers and varints. Every read checks the bounds: `None` means that the bytes end too early.

pub fn int16(data: &[u8], at: usize) -> Option<i16> {
    Some(i16::from_be_bytes(data.get(at..at + 2)?.try_into().ok()?))
}

pub fn int32(data: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(data.get(at..at + 4)?.try_into().ok()?))
}

pub fn int64(data: &[u8], at: usize) -> Option<i64> {
    Some(i64::from_be_bytes(data.get(at..at + 8)?.try_into().ok()?))
}

/// Reads fields one after another. The position moves only over bytes that exist.
pub struct Cursor<'a> {
    pub data: &'a [u8],
    pub at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(data: &'a [u8]) -> Self {
        Cursor { data, at: 0 }
    }

    #[inline(always)]
    pub fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let bytes = self.data.get(self.at..self.at.checked_add(size)?)?;
        self.at += size;
        Some(bytes)
    }

    pub fn int16(&mut self) -> Option<i16> {
        self.take(2).and_then(|bytes| int16(bytes, 0))
    }

    pub fn int32(&mut self) -> Option<i32> {
        self.take(4).and_then(|bytes| int32(bytes, 0))
    }

    pub fn int64(&mut self) -> Option<i64> {
        self.take(8).and_then(|bytes| int64(bytes, 0))
    }

    /// Bytes after their size as an int16; `None` also for a negative size.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        self.nullable_string()?
    }

    /// As `string`, but a negative size is a null string: `Some(None)`.
    pub fn nullable_string(&mut self) -> Option<Option<&'a [u8]>> {
        let size = self.int16()?;
        if size < 0 {
            return Some(None);
        }
        self.take(size as usize).map(Some)
    }

    /// Bytes after their size as an int32; `None` also for a negative size.
    pub fn long_bytes(&mut self) -> Option<&'a [u8]> {
        let size = self.int32()?;
        self.take(usize::try_from(size).ok()?)
    }

    /// An unsigned varint of at most three bytes, enough for every size that a coordinator writes.
    pub fn short_uvarint(&mut self) -> Option<usize> {
        let mut value = 0;
        for step in 0..3 {
            let byte = *self.take(1)?.first()? as usize;
            value |= (byte & 0x7F) << (7 * step);
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// A zigzag varint of 32 bits, in at most five bytes.
    #[inline(always)]
    pub fn varint(&mut self) -> Option<i64> {
        self.zigzag(5, u32::MAX.into())
    }

    /// A zigzag varint of 64 bits, in at most ten bytes.
    #[inline(always)]
    pub fn varlong(&mut self) -> Option<i64> {
        self.zigzag(10, u64::MAX)
    }

    #[inline(always)]
    fn zigzag(&mut self, max_bytes: usize, mask: u64) -> Option<i64> {
        let byte = *self.data.get(self.at)? as i64;
        if byte < 0x80 {
            self.at += 1;
            return Some((byte >> 1) ^ -(byte & 1));
        }
        let raw = self.long_varint(max_bytes)? & mask;
        Some((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    #[inline(never)]
    fn long_varint(&mut self, max_bytes: usize) -> Option<u64> {
        let mut raw = 0u64;
        for step in 0..max_bytes {
            let byte = *self.data.get(self.at + step)? as u64;
            raw |= (byte & 0x7F) << (7 * step);
            if byte < 0x80 {
                self.at += step + 1;
                return Some(raw);
            }
        }
        None
    }
}
