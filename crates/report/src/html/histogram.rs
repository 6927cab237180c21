//! Decodes histograms of documents. These are foreign text, so their heads are checked before the library reads them.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::serialization::Deserializer;

use super::latency::Buckets;

/// Maximum length of a histogram's text. Those of skye have a few thousand characters.
const TEXT_MAX: usize = 1 << 20;
/// First bytes of a histogram in version 2 of HdrHistogram's format, plain and compressed. These constants of the
/// library are private.
const COOKIE: u32 = 0x1c84_9313;
const COOKIE_COMPRESSED: u32 = 0x1c84_9314;
/// Size of the header: cookie, length of the counts that follow, offset, digits, lowest, highest, ratio.
const HEAD_BYTES: usize = 40;
/// Maximum number of decimal digits of precision. Histograms of skye have two; each further digit makes the table ten
/// times as long.
const DIGITS_MAX: u32 = 3;
/// Highest value of a table, about thirteen days; tables of skye end at a day and a half.
const HIGHEST_MAX_NS: u64 = 1 << 50;
/// Maximum bytes of the counts of such a table: 2^10 counts in each of 51 powers of two, nine bytes each.
const COUNTS_BYTES_MAX: usize = 51 * 1024 * 9;

/// Decodes a histogram of the document; `None` if it is invalid. For any text, this needs some hundred KiB at most.
pub(crate) fn decoded(text: &str) -> Option<Buckets> {
    if text.len() > TEXT_MAX {
        return None;
    }
    let plain = inflated(STANDARD.decode(text).ok()?)?;
    if !is_sound(&plain) {
        return None;
    }
    let histogram = Deserializer::new().deserialize::<u64, _>(&mut plain.as_slice()).ok()?;
    let buckets: Buckets = histogram
        .iter_recorded()
        .map(|value| (value.value_iterated_to(), value.count_since_last_iteration()))
        .collect();
    (!buckets.is_empty()).then_some(buckets)
}

/// Reads a number of the head.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Returns the histogram without compression. The library could inflate it, too, but without a bound.
fn inflated(bytes: Vec<u8>) -> Option<Vec<u8>> {
    match word(&bytes, 0)? {
        COOKIE => Some(bytes),
        COOKIE_COMPRESSED => {
            let length = word(&bytes, 4)? as usize;
            let packed = bytes.get(8..)?.get(..length)?;
            let most = HEAD_BYTES + COUNTS_BYTES_MAX;
            let mut plain = Vec::new();
            ZlibDecoder::new(packed).take(most as u64 + 1).read_to_end(&mut plain).ok()?;
            (plain.len() <= most).then_some(plain)
        }
        _ => None,
    }
}

/// Returns true if the head promises a table of moderate size, and its counts are there. The library allocates
/// memory for everything that the head promises.
fn is_sound(plain: &[u8]) -> bool {
    let numbers = || {
        let highest = u64::from_be_bytes(plain.get(24..32)?.try_into().ok()?);
        Some((word(plain, 0)?, word(plain, 4)? as usize, word(plain, 12)?, highest))
    };
    let Some((COOKIE, length, digits, highest)) = numbers() else { return false };
    let Some(counts) = plain.get(HEAD_BYTES..) else { return false };
    // The library negates numbers, and the least one, nine bytes of 0xff, has no negative. Our counts are far from it.
    let is_least = |nine: &[u8]| nine.iter().all(|byte| *byte == 0xff);
    length == counts.len()
        && length <= COUNTS_BYTES_MAX
        && digits <= DIGITS_MAX
        && highest <= HIGHEST_MAX_NS
        && !counts.windows(9).any(is_least)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer, V2Serializer};
    use proptest::prelude::*;

    use super::*;

    /// A histogram of latencies, given as nanoseconds and count, serialized without compression.
    fn plain(latencies: &[(u64, u64)], digits: u8, highest: u64) -> Vec<u8> {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, highest, digits).unwrap();
        for (ns, count) in latencies {
            histogram.record_n(*ns, *count).unwrap();
        }
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&histogram, &mut bytes).unwrap();
        bytes
    }

    fn packed(plain: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(plain).unwrap();
        let deflated = encoder.finish().unwrap();
        let head = [COOKIE_COMPRESSED.to_be_bytes(), (deflated.len() as u32).to_be_bytes()].concat();
        [head, deflated].concat()
    }

    /// Decodes a histogram plain and compressed, which must give the same result.
    fn read(plain: &[u8]) -> Option<Buckets> {
        let both = [plain.to_vec(), packed(plain)].map(|bytes| decoded(&STANDARD.encode(bytes)));
        assert_eq!(both[0], both[1]);
        both[0].clone()
    }

    const MINUTE: u64 = 60_000_000_000;

    #[test]
    fn histogram_written_by_skye_is_decoded() {
        let known = [(1, 3), (100, 7), (1_000_000, 900), (MINUTE, u64::from(u32::MAX))];
        let buckets = read(&plain(&known, 2, MINUTE)).unwrap();
        assert_eq!(buckets.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [3, 7, 900, 4_294_967_295]);
        for ((ns, _), (upper_ns, _)) in known.iter().zip(&buckets) {
            assert!(*upper_ns >= *ns && *upper_ns as f64 <= *ns as f64 * 1.02, "{ns} {upper_ns}");
        }
        let mut histogram = Histogram::<u64>::new_with_bounds(1, MINUTE, 2).unwrap();
        known.iter().for_each(|(ns, count)| histogram.record_n(*ns, *count).unwrap());
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&histogram, &mut bytes).unwrap();
        assert_eq!(decoded(&STANDARD.encode(bytes)).unwrap(), buckets);
        assert!(read(&plain(&known, 3, MINUTE)).is_some());
    }

    /// A small histogram whose head has `number` at byte `at`.
    fn forged(at: usize, number: &[u8]) -> Vec<u8> {
        let mut plain = plain(&[(100, 7), (1_000_000, 900)], 2, MINUTE);
        plain[at..at + number.len()].copy_from_slice(number);
        plain
    }

    #[test]
    fn forged_histogram_header_is_refused() {
        let sound = forged(0, &COOKIE.to_be_bytes());
        assert!(is_sound(&sound) && read(&sound).is_some());
        for (at, number) in [
            (0, COOKIE_COMPRESSED.to_be_bytes().to_vec()),
            (4, u32::MAX.to_be_bytes().to_vec()),
            (4, 100u32.to_be_bytes().to_vec()),
            (4, 0u32.to_be_bytes().to_vec()),
            (12, 4u32.to_be_bytes().to_vec()),
            (12, 5u32.to_be_bytes().to_vec()),
            (24, u64::MAX.to_be_bytes().to_vec()),
        ] {
            let forged = forged(at, &number);
            assert!(!is_sound(&forged), "{at} {number:?}");
            assert_eq!(decoded(&STANDARD.encode(packed(&forged))), None, "{at} {number:?}");
        }
        assert!(!is_sound(&sound[..30]) && !is_sound(&[]));
        // The length of the compressed part.
        let mut long = packed(&sound);
        long[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(decoded(&STANDARD.encode(long)), None);
    }

    #[test]
    fn decompression_bomb_is_not_inflated() {
        let mut bomb = forged(4, &(64u32 << 20).to_be_bytes())[..HEAD_BYTES].to_vec();
        bomb.resize(HEAD_BYTES + (64 << 20), 0);
        let packed = packed(&bomb);
        assert!(packed.len() < TEXT_MAX / 2);
        assert_eq!(inflated(packed), None);
    }

    #[test]
    fn minimum_integer_is_refused_as_count() {
        let mut least = plain(&[], 2, MINUTE)[..HEAD_BYTES].to_vec();
        least.extend([0xff; 9]);
        least.extend([0; 9]);
        least[4..8].copy_from_slice(&18u32.to_be_bytes());
        assert_eq!(read(&least), None);
    }

    proptest! {
        #[test]
        fn any_histogram_bytes_decode_without_panic(
            counts in prop::collection::vec(any::<u8>(), 0..60),
            digits in 0u32..4,
            highest in 0u64..=HIGHEST_MAX_NS,
            lowest in any::<u64>(),
        ) {
            let mut plain = forged(24, &highest.to_be_bytes())[..HEAD_BYTES].to_vec();
            plain[4..8].copy_from_slice(&(counts.len() as u32).to_be_bytes());
            plain[12..16].copy_from_slice(&digits.to_be_bytes());
            plain[16..24].copy_from_slice(&if lowest % 2 == 0 { 1 } else { lowest }.to_be_bytes());
            plain.extend(counts);
            read(&plain);
        }
    }
}
