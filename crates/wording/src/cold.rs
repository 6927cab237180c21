//! The device's reads for cold names.

use model::finding::Finding;
use model::run::PhaseRecord;
use model::size;

/// Returns the device's reads for each name of a cold test: "1.02 device reads and 4 KiB for each name". Returns `None`
/// for other tests, and where no counter shows them.
pub fn cold_reads(phase: &PhaseRecord) -> Option<String> {
    let found = phase.judged.notes.iter().find_map(|note| match &note.finding {
        Finding::NamesFromDevice { reads, read_bytes, operations } => {
            Some(("", reads.0, read_bytes.0, operations.0))
        }
        Finding::NamesFromBusyDevice { reads, read_bytes, operations } => {
            Some(("at most ", reads.0, read_bytes.0, operations.0))
        }
        _ => None,
    });
    let (at_most, reads, read_bytes, operations) = found?;
    let each = |amount: u64| amount as f64 / operations.max(1) as f64;
    let bytes = size::binary(each(read_bytes).round() as u64);
    Some(format!("{at_most}{} device reads and {bytes} for each name", format_small(each(reads))))
}

/// Formats a number that may be far below 1: "12", "1.02", "0.016". Below 1, it has two digits.
fn format_small(value: f64) -> String {
    let decimals = match value {
        value if value >= 10.0 => 0,
        value if value >= 1.0 || value <= 0.0 => 2,
        value => (1.0 - value.log10().floor()) as usize,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_keep_two_digits() {
        let texts = [0.0, 0.000_51, 0.0163, 0.5, 1.02, 12.3].map(format_small);
        assert_eq!(texts, ["0.00", "0.00051", "0.016", "0.50", "1.02", "12"]);
    }
}
