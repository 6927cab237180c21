//! The parts of a request that all programs of the family have in common.

use model::plan::WRITE_LIMIT_BYTES_MAX;
use model::request::{Allow, Request, Seconds};
use model::size::Size;
use model::workload::CacheMode;

/// Limit of the total time, so long that counts end every test.
const TOTAL: Seconds = Seconds(1e7);

/// A request for these tests as the programs run them: files of `size_bytes`, caches as they are, nothing else.
pub fn request(program: impl Into<String>, tests: Vec<String>, size_bytes: Option<u64>) -> Request {
    Request {
        preset: Some(program.into()),
        tests,
        size: size_bytes.map(Size::Bytes),
        total: Some(TOTAL),
        cache: Some(CacheMode::AsIs),
        places: Some(1),
        // Only streams from a server are tried: the programs' tests end by counts.
        probe: Some(true),
        // The tests write as much as was asked for.
        write_limit: Some(Size::Bytes(WRITE_LIMIT_BYTES_MAX)),
        // The originals keep no space free; files that do not fit are refused all the same.
        allow: vec![Allow::LowSpace],
        ..Request::default()
    }
}
