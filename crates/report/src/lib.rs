//! Turns a [`model::Run`], or a part of one, into what people and programs read: terminal text, JSON, CSV, Markdown,
//! a page.
//!
//! Invariants:
//! - Pure: the same values give the same text. No I/O, no clock, no environment; the caller says what the terminal can.
//! - No row stands without a number or a reason, and every mark beside a row has its sentence in the notes.
//! - What is not known is left out or shown as missing, never made up.
//! - Text that others wrote (host names, labels, paths, errors) reaches the terminal only through [`printable()`],
//!   a spreadsheet only defused, Markdown and pages only escaped.
//! - A page is one file: no script, nothing fetched, and as well without a screen.
//! - Blocks for the terminal end without a newline and may be empty; whole documents end with one.
//!   Styles are ANSI sequences, which a writer that is no terminal strips.

mod answer;
pub mod compare;
pub mod csv;
mod facts;
mod headline;
pub mod html;
pub mod json;
pub mod list;
pub mod live;
pub mod markdown;
pub(crate) use model::numbers;
#[cfg(test)]
mod sample;
pub mod slug;
mod spark;
mod svg;
pub mod text;
mod time;
pub mod trend;

pub use model::printable::printable;
