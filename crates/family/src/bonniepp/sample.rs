//! Lines for tests.

use proptest::prelude::*;

use super::figure::{latency_text, parse_latency};
use super::{Cell, Content, Layout, Line, Test, TestFigures};

/// Generates any line that reads back unchanged after it was written.
pub(super) fn any_line() -> impl Strategy<Value = Line> {
    let results = prop::array::uniform12((any_figure(), any_figure(), any::<Option<u64>>()));
    let words = (0usize..3, "[ -~äж界]{0,24}", "[ -~]{0,12}", 1u64..200);
    let data = (any_count(1 << 40), any_count(1 << 40), any_count(100_000), any_count(1000));
    let files = (any_count(1 << 30), any_content(), 1u64..100_000);
    (words, data, files, results).prop_map(|(words, data, files, results)| {
        let (layout, name, seed, concurrency) = words;
        let layout = Layout::ALL[layout];
        let old = layout == Layout::V1_03;
        let new = layout == Layout::V2_00;
        let mut line = Line::new(layout, name);
        (line.file_size_mib, line.chunk_bytes, line.seeks, line.seekers) = data;
        (line.num_files, line.content, line.directories) = files;
        line.chunk_bytes = line.unusual_chunk().filter(|_| !new);
        if !new {
            (line.seeks, line.seekers) = (None, None);
        }
        if !old {
            (line.seed, line.concurrency) = (seed, concurrency);
        } else if line.num_files.is_none() {
            // One cell holds all three.
            (line.content, line.directories) = (Content::EMPTY, 1);
        }
        for (test, (rate, cpu, latency_ns)) in Test::ALL.into_iter().zip(results) {
            let latency_ns = if old { None } else { parse_latency(&latency_text(latency_ns)).unwrap() };
            line[test] = TestFigures { rate, cpu, latency_ns };
        }
        line
    })
}

fn any_count(below: u64) -> impl Strategy<Value = Option<u64>> {
    prop::option::of(0..below)
}

fn any_figure() -> impl Strategy<Value = Cell> {
    prop_oneof![
        Just(Cell::Absent),
        Just(Cell::TooFast),
        (0.0..1e12).prop_map(Cell::truncated),
        // As many tenths as can be read back.
        (0u64..1_000_000_000).prop_map(|tenths| Cell::tenths(tenths as f64 / 10.0)),
    ]
}

fn any_content() -> impl Strategy<Value = Content> {
    prop_oneof![
        (0u64..1 << 40, 0u64..1 << 40)
            .prop_map(|(max_bytes, min_bytes)| Content::Sized { max_bytes, min_bytes }),
        Just(Content::EMPTY),
        Just(Content::HardLinks),
        Just(Content::SymbolicLinks),
    ]
}
