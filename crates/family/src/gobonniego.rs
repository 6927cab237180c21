//! GoBonnieGo: its command line, its lines of text and its JSON, read and written.
//!
//! A [`Report`] is its JSON, a [`Line`] one line of its text. [`read()`] finds both in any text; [`Report::to_json`]
//! and the `Display` of [`Line`] write them. [`Figures`] are the ten numbers of one run.

pub mod arguments;
mod figures;
mod line;
mod read;
mod report;
mod translation;

pub use figures::{Figures, Test};
pub use line::{Line, LineContent};
pub use read::{Problem, Reading, read};
pub use report::{CLOSING, Report, RunResult};
pub use translation::{Translation, check_room, translate};

/// Version of GoBonnieGo that has these formats. Programs that read them check it.
pub const VERSION: &str = "1.0.10";
