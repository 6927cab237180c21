//! The formats of the older programs that skye stands in for: what they wrote can be read, and what scripts expect of
//! them can be written.
//!
//! Invariants:
//! - Pure: the same text gives the same values, and the same values the same text. No I/O, no clock, no environment.
//! - No text makes a reader panic. What cannot be read is named by line and column, and costs no other line.
//! - What a reader takes from a line of the originals, the writer writes again byte by byte; the exceptions are listed
//!   in a test (`tests/originals.rs`).
//! - What is absent or was too fast to be timed is never shown as a number, and no unit is changed without saying so.
//! - Text that others wrote (names, seeds) is shown only with what would act instead of show made visible, in HTML
//!   only escaped.

pub mod bonnie;
pub mod bonniepp;
pub mod getc_putc;
pub mod gobonniego;
mod markup;
pub mod randfile;
pub mod results;
#[cfg(test)]
mod sample;
pub mod words;
mod work;
pub mod zcav;
