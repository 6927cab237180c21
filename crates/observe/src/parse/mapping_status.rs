//! Status of a mapping as the device mapper reports it: the kernel's `struct dm_ioctl` (include/uapi/linux/dm-ioctl.h).

/// Size of the structure in front of the answer.
pub const HEAD_BYTES: usize = 312;
/// Size of what precedes the text of a target.
const SPEC_BYTES: usize = 40;
/// Bytes of the name of a type.
const TYPE_BYTES: usize = 16;
/// Flag: do not make the device durable before it answers.
const NO_FLUSH: u32 = 1 << 11;
/// Flag of an answer that is cut short.
const BUFFER_FULL: u32 = 1 << 8;

/// One part of a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedPart {
    /// Type of its target: "linear", "crypt", "multipath".
    pub kind: String,
    /// State in the words of that type.
    pub status: String,
}

impl MappedPart {
    /// Returns the failed paths of a multipath target and all of its paths. Each path is a device number that is
    /// followed by `A` (active) or `F` (failed).
    pub fn paths(&self) -> Option<(usize, usize)> {
        let words: Vec<_> = self.status.split(' ').collect();
        let is_path = |pair: &&[&str]| pair[0].contains(':') && matches!(pair[1], "A" | "F");
        let states: Vec<_> = words.windows(2).filter(is_path).map(|pair| pair[1]).collect();
        let failed = states.iter().filter(|state| **state == "F").count();
        (self.kind == "multipath" && !states.is_empty()).then_some((failed, states.len()))
    }
}

/// Writes a request for the status of the device with these numbers into an empty buffer.
pub fn write_request(buffer: &mut [u8], major: u32, minor: u32) {
    let size = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
    let head = u32::try_from(HEAD_BYTES).unwrap_or(u32::MAX);
    // The kernel's own packing of both numbers (huge_encode_dev).
    let device = (minor & 0xff) | major << 8 | (minor & !0xff) << 12;
    // Version 4.0.0 is understood by all kernels since 2003.
    for (at, word) in [(0, 4), (12, size), (16, head), (28, NO_FLUSH), (40, device)] {
        if let Some(place) = buffer.get_mut(at..at + 4) {
            place.copy_from_slice(&u32::to_ne_bytes(word));
        }
    }
}

/// Reads an answer; empty if it is none.
pub fn parse(answer: &[u8]) -> Vec<MappedPart> {
    let u32_at = |at: usize| Some(u32::from_ne_bytes(answer.get(at..at + 4)?.try_into().ok()?) as usize);
    let (Some(start), Some(count), Some(flags)) = (u32_at(16), u32_at(20), u32_at(28)) else {
        return Vec::new();
    };
    let mut parts = Vec::new();
    let mut at = start;
    for _ in 0..count.min(answer.len() / SPEC_BYTES) {
        let Some(next) = u32_at(at + 20) else { break };
        let text = |from: usize, to: usize| {
            let bytes = answer.get(from..to.min(answer.len()))?;
            let bytes = bytes.split(|byte| *byte == 0).next()?;
            Some(String::from_utf8_lossy(bytes).into_owned())
        };
        let kind = text(at + SPEC_BYTES - TYPE_BYTES, at + SPEC_BYTES);
        let (Some(kind), Some(status)) = (kind, text(at + SPEC_BYTES, answer.len())) else { break };
        parts.push(MappedPart { kind, status: status.trim().to_owned() });
        // The distance from the start of all parts.
        at = start.saturating_add(next);
    }
    if flags & BUFFER_FULL as usize != 0 {
        parts.pop();
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn answer(parts: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes = vec![0; HEAD_BYTES];
        write_request(&mut bytes, 253, 1);
        bytes[20..24].copy_from_slice(&(parts.len() as u32).to_ne_bytes());
        let mut data: Vec<u8> = Vec::new();
        for (kind, status) in parts {
            let mut spec = [0; SPEC_BYTES];
            let next = data.len() + SPEC_BYTES + status.len() + 1;
            spec[20..24].copy_from_slice(&(next as u32).to_ne_bytes());
            spec[24..24 + kind.len()].copy_from_slice(kind.as_bytes());
            data.extend(spec.iter().chain(status.as_bytes()).chain(&[0]));
        }
        [bytes, data].concat()
    }

    #[test]
    fn consecutive_mapping_targets_are_parsed() {
        let parts =
            parse(&answer(&[("linear", ""), ("multipath", "2 0 0 0 1 1 A 0 2 0 259:0 A 0 259:1 F 1")]));
        let kinds: Vec<_> = parts.iter().map(|part| part.kind.as_str()).collect();
        assert_eq!(kinds, ["linear", "multipath"]);
        assert_eq!(parts[1].paths(), Some((1, 2)));
        assert_eq!(parts[0].paths(), None);
        assert!(parse(&[]).is_empty());
    }

    #[test]
    fn device_number_is_encoded_as_in_kernel() {
        let mut buffer = [0; HEAD_BYTES];
        write_request(&mut buffer, 253, 0x1234);
        assert_eq!(buffer[40..44], 0x0120_fd34_u32.to_ne_bytes());
    }

    proptest! {
        #[test]
        fn any_answer_parses_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            parse(&bytes);
        }
    }
}
