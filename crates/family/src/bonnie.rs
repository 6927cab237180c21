//! The two programs from which bonnie++ descends and that are still in use: bonnie 1.4 and Bonnie-64. Their command
//! line, their six tests, and their tables as text and HTML, read and written.
//!
//! A [`Table`] is one run. [`read()`] finds tables in any text; [`Table::text`] and [`Table::html`] write them.

pub mod arguments;
mod outcome;
mod read;
mod table;
mod translation;

pub use outcome::{completion_message, measured, opening, phrase, table_of};
pub use read::read;
pub use table::{Head, Program, Table, Test, TestRate};
pub use translation::{Translation, check_room, translate};
