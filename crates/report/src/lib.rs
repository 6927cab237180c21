//! Turns a [`model::Run`], a part of one, or a comparison into text: terminal, JSON, CSV, Markdown and pages.
//!
//! Invariants:
//! - Pure: the same values give the same text. No I/O, no clock, no environment; the caller says what the terminal can.
//! - No row is without a number or a reason. Every mark beside a row has its sentence in the notes.
//! - An unknown value is left out or shown as missing, never made up.
//! - Text that others wrote (host names, labels, paths, errors) reaches the terminal only through [`printable()`]. A
//!   spreadsheet gets it only defused, Markdown and pages only escaped.
//! - A page is one file without scripts. It fetches nothing, and reads as well without a screen.
//! - Each chart has a sentence that says what it shows. No thinning of a line loses a low or a high.
//! - The unit of a comparison is a whole run on fresh files. Spread within one run never stands in for it.
//! - A comparison claims a change only after the correction for all rows that are read together.
//! - Blocks for the terminal end without a newline and may be empty; whole documents end with one. Styles are ANSI
//!   sequences; a writer that is no terminal strips them.

pub mod anonymous;
mod answer;
pub mod compare;
pub mod csv;
mod facts;
mod headline;
pub mod html;
pub mod json;
mod layers;
pub mod list;
pub mod live;
pub mod markdown;
pub mod openmetrics;
mod operations;
pub mod percentiles;
pub(crate) use model::numbers;
#[cfg(test)]
mod sample;
pub mod slug;
mod spark;
pub mod text;
mod time;
pub mod trend;
mod work;
mod zones;

pub use model::printable::printable;
