//! Tests of the crate alone. What the engine answers is tested in `tests/engine/`, against the readable engine.

mod batches;
mod bytes;
mod codecs;
mod groups;
mod pending;
mod table;

/// The bytes that a text of hexadecimal digits stands for.
fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
