//! What bonnie++ writes, in the three layouts that are met: CSV lines in both directions, the text table after a run,
//! and many lines as text or as a page.
//!
//! A [`Line`] is one run. [`read()`] finds lines in any text, [`Line::to_csv`] and [`Layout::header`] write them,
//! [`table()`] is what bonnie++ prints above the line, [`csv2txt()`] and [`csv2html()`] compare many.

pub mod arguments;
mod csv2txt;
mod figure;
mod html;
mod line;
pub(crate) mod outcome;
mod read;
#[cfg(test)]
mod sample;
mod table;
mod translation;
mod write;

pub use csv2txt::csv2txt;
pub use figure::{Figure, SHORTEST_SECONDS, latency_text};
pub use html::csv2html;
pub use line::{Content, DEFAULT_CHUNK_BYTES, Layout, Line, Test, TestFigures};
pub use outcome::{line_of, phrase};
pub use read::{Problem, read};
pub use table::table;
pub use translation::{Translation, translate};
