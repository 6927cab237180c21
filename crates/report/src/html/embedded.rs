//! Embeds a run in a page, and extracts it again.

use std::io::{self, Read, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use model::{Comparison, Run};

use crate::json;

/// Tag in the first lines of every page that skye makes.
const GENERATOR: &str = "<meta name=\"generator\" content=\"skye\">";
/// Tag that only pages of comparisons have. Foreign text cannot contain it, because its quotation marks are escaped.
pub(crate) const COMPARISON: &str = "<section id=\"differs\"";
/// Bytes at the start of a text that are searched for [`GENERATOR`].
const HEAD_MAX: usize = 4096;
/// Markup before the run. Foreign text cannot contain it, because its quotation marks are escaped.
const RUN_LINK_PREFIX: &str = "<a download=\"run.json.gz\" href=\"data:application/gzip;base64,";
/// Markup before a comparison.
const COMPARISON_LINK_PREFIX: &str =
    "<a download=\"comparison.json.gz\" href=\"data:application/gzip;base64,";
/// Maximum bytes of a run extracted from a page, against zip bombs: far more than any page of skye has.
pub(crate) const INFLATED_MAX: u64 = 256 << 20;

/// Returns the run as a download link; `None` if it takes more than `bytes_max` bytes.
pub(super) fn run(run: &Run, bytes_max: usize) -> Option<String> {
    compressed_link(RUN_LINK_PREFIX, "run.json.gz", bytes_max, |writer| {
        let mut writer = io::BufWriter::with_capacity(64 << 10, writer);
        json::write_into(run, &mut writer).and_then(|()| writer.flush()).ok()
    })
}

/// Returns a comparison as a download link; `None` if it takes more than `bytes_max` bytes.
pub(crate) fn comparison(comparison: &Comparison, bytes_max: usize) -> Option<String> {
    let text = json::write_comparison(comparison);
    compressed_link(COMPARISON_LINK_PREFIX, "comparison.json.gz", bytes_max, |writer| {
        writer.write_all(text.as_bytes()).ok()
    })
}

/// Compresses the output of `write`, and returns it as a download link.
fn compressed_link(
    before: &str,
    name: &str,
    bytes_max: usize,
    write: impl FnOnce(&mut dyn Write) -> Option<()>,
) -> Option<String> {
    // Base64 has four characters for three bytes.
    let bounded =
        BoundedWriter { bytes: Vec::new(), left: bytes_max.saturating_sub(before.len() + 64) / 4 * 3 };
    let mut encoder = GzEncoder::new(bounded, Compression::default());
    write(&mut encoder)?;
    let bytes = encoder.finish().ok()?.bytes;
    Some(format!("{before}{}\">{name}</a>", STANDARD.encode(bytes)))
}

/// Returns a table as a download link with that name; `None` if it is too large for `bytes_max` bytes.
pub(crate) fn csv(name: &str, text: &str, bytes_max: usize) -> Option<String> {
    (text.len() < bytes_max / 2).then(|| {
        let encoded = STANDARD.encode(text);
        format!("<a download=\"{name}\" href=\"data:text/csv;charset=utf-8;base64,{encoded}\">{name}</a>")
    })
}

/// Writer that fails after a number of bytes, so that data too long for the page is not compressed to its end.
struct BoundedWriter {
    bytes: Vec<u8>,
    left: usize,
}

impl Write for BoundedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Extracts the JSON of the run from a page of skye; `None` for any other text.
///
/// # Errors
/// Says why the page has no run, or why the run cannot be read, and what to do.
pub fn embedded(text: &str) -> Option<Result<String, String>> {
    let head = text.get(..text.floor_char_boundary_of(HEAD_MAX)).unwrap_or(text);
    head.contains(GENERATOR).then(|| inflated(text))
}

fn inflated(text: &str) -> Result<String, String> {
    let Some((_, rest)) = text.split_once(RUN_LINK_PREFIX) else {
        if text.contains(COMPARISON) {
            return Err("this page is a comparison without a run; choose one of the compared runs".into());
        }
        return Err("this page lacks its run, which was too large; use the JSON of the run".into());
    };
    let damaged = |why: &str| format!("the run in this page is damaged ({why}); save or copy the page again");
    let (encoded, _) = rest.split_once('"').ok_or_else(|| damaged("it is truncated"))?;
    let bytes = STANDARD.decode(encoded).map_err(|_| damaged("it is not base64"))?;
    let mut json = String::new();
    let read = MultiGzDecoder::new(bytes.as_slice()).take(INFLATED_MAX + 1).read_to_string(&mut json);
    read.map_err(|error| damaged(&error.to_string()))?;
    if json.len() as u64 > INFLATED_MAX {
        return Err(format!("the run in this page is larger than {}", model::size::binary(INFLATED_MAX)));
    }
    Ok(json)
}

trait Boundary {
    /// Returns the last index at or before `index` at which the text can be cut.
    fn floor_char_boundary_of(&self, index: usize) -> usize;
}

impl Boundary for str {
    // The standard library's own is newer than the oldest Rust that we support.
    fn floor_char_boundary_of(&self, index: usize) -> usize {
        (0..=index.min(self.len())).rev().find(|at| self.is_char_boundary(*at)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::{Embed, page};
    use crate::sample;

    #[test]
    fn embedded_run_reads_back() {
        for run in [sample::run(), sample::hostile_run(), sample::partial_run()] {
            let json = embedded(&page(&run, Embed::Run)).unwrap().unwrap();
            assert_eq!(json, json::write(&run));
            assert_eq!(json::read(&json).unwrap(), run);
        }
    }

    #[test]
    fn missing_or_damaged_run_is_reported() {
        assert_eq!(embedded("{\"schema\": \"skye.run/1\"}"), None);
        assert_eq!(embedded(&"ü".repeat(HEAD_MAX)), None);
        let without = embedded(&page(&sample::run(), Embed::Nothing)).unwrap().unwrap_err();
        assert!(without.contains("too large"), "{without}");
        let page = page(&sample::run(), Embed::Run);
        let at = page.find(RUN_LINK_PREFIX).unwrap() + RUN_LINK_PREFIX.len();
        for (cut, why) in
            [(page[..at + 100].to_owned(), "truncated"), (page[..at + 100].to_owned() + "\">", "damaged")]
        {
            let error = embedded(&cut).unwrap().unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn oversized_run_or_csv_is_omitted() {
        let all = run(&sample::run(), usize::MAX).unwrap();
        assert!(run(&sample::run(), all.len() / 2).is_none());
        assert!(run(&sample::run(), all.len() + 64).is_some());
        assert!(csv("run.csv", &crate::csv::write(&sample::run()), 100).is_none());
    }

    #[test]
    fn gzip_bomb_is_not_inflated() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let mebibyte = vec![b' '; 1 << 20];
        for _ in 0..257 {
            encoder.write_all(&mebibyte).unwrap();
        }
        let bomb = format!("{GENERATOR}{RUN_LINK_PREFIX}{}\">", STANDARD.encode(encoder.finish().unwrap()));
        assert!(embedded(&bomb).unwrap().unwrap_err().contains("larger than 256 MiB"));
    }
}
