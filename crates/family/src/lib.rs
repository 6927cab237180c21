//! Translates the older programs that skye replaces: their command lines to tests, runs to their formats, and their
//! files back to values.
//!
//! `tests/data/` holds outputs of the originals.
//!
//! Invariants:
//! - A dialect is a translation: measurements and limiters come about as in any other run.
//! - Pure: the same text gives the same values, and the same values the same text. No I/O, no clock, no environment.
//! - No text makes a reader panic. An unreadable part is named by line and column, and costs no other line.
//! - The writers give back each line of the originals byte by byte. A test lists the exceptions (`tests/originals.rs`).
//! - A figure that is absent or was too fast to be timed is never shown as a number. No unit changes without a word.
//! - Text that others wrote (names, seeds) is made visible where it would act; HTML shows it only escaped.

pub mod bonnie;
pub mod bonniepp;
pub mod dialect;
pub mod getc_putc;
pub mod gobonniego;
pub mod randfile;
pub mod results;
#[cfg(test)]
mod sample;
mod words;
mod work;
pub mod zcav;
