//! Columns in Arrow's layout: numbers, texts with their ends, and a bit for each value that is not null.

/// Columns while they are filled, row by row.
#[derive(Default)]
pub struct Table {
    pub rows: usize,
    pub columns: Vec<Column>,
    next: usize,
}

impl Table {
    /// The next column of the current row.
    pub fn column(&mut self) -> &mut Column {
        if self.next == self.columns.len() {
            self.columns.push(Column::default());
        }
        self.next += 1;
        &mut self.columns[self.next - 1]
    }

    pub fn end_row(&mut self) {
        self.next = 0;
        self.rows += 1;
    }
}

/// A column while it is filled.
#[derive(Default)]
pub struct Column {
    /// The numbers of the column, or the bytes of all its texts.
    pub data: Vec<u8>,
    /// Only for texts: where each text ends, after a first 0.
    pub ends: Vec<u8>,
    pub valid: Vec<u8>,
    pub nulls: usize,
    rows: usize,
}

impl Column {
    fn mark(&mut self, is_valid: bool) {
        if self.rows % 8 == 0 {
            self.valid.push(0);
        }
        if is_valid {
            self.valid[self.rows / 8] |= 1 << (self.rows % 8);
        } else {
            self.nulls += 1;
        }
        self.rows += 1;
    }

    pub fn int64(&mut self, value: Option<i64>) {
        self.data.extend_from_slice(&value.unwrap_or(0).to_ne_bytes());
        self.mark(value.is_some());
    }

    pub fn int32(&mut self, value: Option<i32>) {
        self.data.extend_from_slice(&value.unwrap_or(0).to_ne_bytes());
        self.mark(value.is_some());
    }

    pub fn text(&mut self, value: Option<&[u8]>) {
        if self.rows == 0 {
            self.ends.extend_from_slice(&0i32.to_ne_bytes());
        }
        self.data.extend_from_slice(value.unwrap_or_default());
        self.ends.extend_from_slice(&(self.data.len() as i32).to_ne_bytes());
        self.mark(value.is_some());
    }
}

/// A UUID as Kafka prints it: base64 for URLs, without padding.
pub fn uuid_text(id: &[u8; 16]) -> [u8; 22] {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits = u128::from_be_bytes(*id);
    let mut text = [0; 22];
    for (index, letter) in text.iter_mut().enumerate() {
        // The last letter has only two bits.
        let shift = 122 - 6 * index as i32;
        let six = if shift >= 0 { bits >> shift } else { bits << -shift };
        *letter = LETTERS[(six & 63) as usize];
    }
    text
}
