//! The output of bonnie++ in its three layouts. It is CSV lines (read and written), the text table after a run, and a
//! comparison of many lines as text or as a page.
//!
//! A [`Line`] is one run. [`read()`] finds lines in any text; [`Line::to_csv`] and [`Layout::header`] write them.
//! [`table()`] makes the table that bonnie++ prints above the line; [`csv2txt()`] and [`csv2html()`] compare many
//! lines.

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
pub use figure::{Cell, SHORTEST_SECONDS, latency_text};
pub use html::csv2html;
pub use line::{Content, DEFAULT_CHUNK_BYTES, Layout, Line, Test, TestFigures};
pub use outcome::{line_of, phrase};
pub use read::{Problem, read};
pub use table::table;
pub use translation::{Translation, translate};
