//! What the programs of the family have in common in what they do.

use model::plan::WRITE_LIMIT_BYTES_MAX;
use model::request::{Allow, Request, Seconds};
use model::size::Size;
use model::workload::{CacheMode, Probing};

/// Time within which all ends by counts: nothing may end it by time.
const TOTAL: Seconds = Seconds(1e7);

/// These tests as the programs do them: on files of so many bytes, through caches as they are, and nothing besides.
pub fn request(program: impl Into<String>, tests: Vec<String>, size_bytes: Option<u64>) -> Request {
    Request {
        preset: Some(program.into()),
        tests,
        size: size_bytes.map(Size::Bytes),
        total: Some(TOTAL),
        cache: Some(CacheMode::AsIs),
        probe: Some(Probing::None),
        // What was asked for is what is written.
        write_limit: Some(Size::Bytes(WRITE_LIMIT_BYTES_MAX)),
        // The originals leave nothing free; what does not fit is refused all the same.
        allow: vec![Allow::LowSpace],
        ..Request::default()
    }
}
