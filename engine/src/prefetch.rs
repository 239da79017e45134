//! The only unsafe code of the crate.
#![allow(unsafe_code)]

/// Ask the CPU to load the cache line of a value that is needed soon. Elsewhere than on x86-64, do nothing.
///
/// Sound: the instruction reads no memory that the program sees, and never faults, whatever the address is.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        _mm_prefetch(value as *const T as *const i8, _MM_HINT_T0);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
