//! The native engine of kafkagroups: reads the segments of one partition of `__consumer_offsets` into columns.
//!
//! It holds no rule that the readable engine (`kafkagroups/groups/`) does not have. A log that is unusual is handed
//! over, with the place and the reason, and the readable engine answers. `python` is the interface to Python.
#![deny(unsafe_code)]

pub mod batch;
pub mod bytes;
pub mod codec;
pub mod columns;
pub mod explain;
pub mod fold;
pub mod follow;
pub mod groups;
pub mod pending;
pub mod prefetch;
#[cfg(feature = "python")]
mod python;
pub mod records;
pub mod source;
pub mod table;
