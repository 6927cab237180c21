//! Frames on a stream of bytes: a length in four bytes, the most significant first, and one JSON document.
//!
//! A document is checked before it is read: nothing here allocates by a number that the other side chose. The memory of
//! a reader grows with the bytes that have arrived.

use model::frames::FRAME_BYTES_MAX;
use model::json::{FromJson, ToJson};

/// Bytes of the length before each frame.
const LENGTH_BYTES: usize = 4;
/// Deepest nesting of a document: that of a record is 12.
const DEPTH_MAX: usize = 32;
/// Most values of a document. A record of 3,000 intervals has fewer than a million.
const VALUES_MAX: usize = 2_000_000;
/// Longest text in a document. The largest histogram takes a tenth of it.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// Longest number: that of a seed has 20 digits, and a fraction at most 25 characters.
const NUMBER_BYTES_MAX: usize = 30;
/// Most digits of a whole number from a client: sums of such numbers stay within 64 bits.
pub const DIGITS_MAX: usize = 18;

/// Reason why bytes are no frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub String);

fn malformed<T>(why: impl Into<String>) -> Result<T, Malformed> {
    Err(Malformed(why.into()))
}

/// Returns the bytes of a frame; `None` for a document that is too long.
pub fn encode(frame: &impl ToJson) -> Option<Vec<u8>> {
    let mut bytes = vec![0; LENGTH_BYTES];
    frame.write_json(&mut bytes).ok()?;
    let length = bytes.len() - LENGTH_BYTES;
    if length > FRAME_BYTES_MAX {
        return None;
    }
    bytes[..LENGTH_BYTES].copy_from_slice(&(length as u32).to_be_bytes());
    Some(bytes)
}

/// Returns the frame of a document that a [`FrameReader`] has cut out.
pub fn framed(document: &[u8]) -> Vec<u8> {
    [&(document.len() as u32).to_be_bytes(), document].concat()
}

/// Reads a document. Whole numbers have at most `digits_max` digits.
///
/// # Errors
/// The document breaks a limit, or means nothing.
pub fn decode<T: FromJson>(document: &[u8], digits_max: usize) -> Result<T, Malformed> {
    check(document, digits_max)?;
    let text = str::from_utf8(document).map_err(|error| Malformed(error.to_string()))?;
    T::from_json(text).map_err(|error| Malformed(error.to_string()))
}

/// Collects bytes, and cuts frames from them.
#[derive(Debug, Default)]
pub struct FrameReader {
    bytes: Vec<u8>,
    /// Bytes at the front that were taken.
    taken: usize,
    /// True until the first frame is found behind other output.
    is_before_start: bool,
}

/// Most bytes of other output before the first frame: the greeting of a shell.
const GREETING_BYTES_MAX: usize = 64 << 10;
/// Beginnings of the first document of the other side, whose forms never change.
const FIRST_FRAME_PREFIXES: [&[u8]; 2] = [b"{\"protocol\":", b"{\"architecture\":"];

/// Largest room for bytes that a channel keeps between frames.
const KEPT_BYTES: usize = 64 << 10;

impl FrameReader {
    /// Returns a reader for a channel on which a shell may print something before the first frame.
    pub fn after_greeting() -> Self {
        Self { is_before_start: true, ..Self::default() }
    }

    /// Returns the output before the first frame in one line; all output so far if there is no such frame yet.
    pub fn greeting(&self) -> String {
        const LETTERS_MAX: usize = 200;
        let text =
            String::from_utf8_lossy(&self.bytes[..self.start().unwrap_or(self.bytes.len())]).into_owned();
        text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(LETTERS_MAX).collect()
    }

    /// Returns true until the first frame is found.
    pub fn is_before_start(&self) -> bool {
        self.is_before_start
    }

    /// Returns the place of the first frame: before the start of its document is its length.
    fn start(&self) -> Option<usize> {
        let is_start = |at: &usize| {
            let (length, document) = self.bytes[*at..].split_at(LENGTH_BYTES);
            length.starts_with(&[0, 0])
                && FIRST_FRAME_PREFIXES.iter().any(|start| document.starts_with(start))
        };
        // The reader may have more than a greeting at once.
        let end = self.bytes.len().saturating_sub(LENGTH_BYTES).min(GREETING_BYTES_MAX);
        (0..end).find(is_start)
    }

    /// Finds the first frame. Returns the greeting before it; `None` as long as the frame has not begun.
    ///
    /// # Errors
    /// There is more output than any greeting has.
    pub fn find_start(&mut self) -> Result<Option<String>, Malformed> {
        let Some(start) = self.start() else {
            return match self.bytes.len() > GREETING_BYTES_MAX {
                true => malformed("there is no start mark within 64 KiB"),
                false => Ok(None),
            };
        };
        let greeting = self.greeting();
        (self.taken, self.is_before_start) = (start, false);
        Ok(Some(greeting))
    }

    /// Adds bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.taken > 0 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next document, if all of it has arrived.
    ///
    /// # Errors
    /// The frame is longer than any may be.
    pub fn next(&mut self) -> Result<Option<Vec<u8>>, Malformed> {
        let rest = &self.bytes[self.taken..];
        let Some((length, rest)) = rest.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length > FRAME_BYTES_MAX {
            return malformed(format!("a frame of {length} bytes is too long"));
        }
        if rest.len() < length {
            return Ok(None);
        }
        let document = rest[..length].to_vec();
        self.taken += LENGTH_BYTES + length;
        if self.taken == self.bytes.len() && self.bytes.capacity() > KEPT_BYTES {
            // A thousand channels would each keep room for their longest frame.
            *self = Self::default();
        }
        Ok(Some(document))
    }
}

/// Checks depth, number of values, and length of texts and numbers, without reading the document.
fn check(document: &[u8], digits_max: usize) -> Result<(), Malformed> {
    let (mut depth, mut values, mut at) = (0usize, 1usize, 0usize);
    while let Some(&byte) = document.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' | b':' => values += 1,
            b'"' => {
                let start = at;
                loop {
                    match document.get(at) {
                        Some(b'\\') => at += 2,
                        Some(b'"') => break,
                        Some(_) => at += 1,
                        None => return malformed("a text is not terminated"),
                    }
                }
                if at - start > TEXT_BYTES_MAX {
                    return malformed("a text is too long");
                }
                at += 1;
            }
            b'-' | b'0'..=b'9' => {
                let start = at - 1;
                let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
                at += document[at..].iter().take_while(|byte| is_part(byte)).count();
                let number = &document[start..at];
                let is_whole = number.iter().all(u8::is_ascii_digit);
                if number.len() > NUMBER_BYTES_MAX || (is_whole && number.len() > digits_max) {
                    return malformed("a number is too long");
                }
            }
            _ => {}
        }
        if depth > DEPTH_MAX {
            return malformed("it is nested too deeply");
        }
        if values > VALUES_MAX {
            return malformed("it has too many values");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::frames::{FromAgent, Hello, ToAgent};
    use proptest::prelude::*;

    #[test]
    fn frames_survive_any_fragmentation() {
        let frames = [ToAgent::Ping { number: 1 }, ToAgent::Beat {}, ToAgent::Start { at_ns: Some(9) }];
        let bytes: Vec<u8> = frames.iter().flat_map(|frame| encode(frame).unwrap()).collect();
        for piece in 1..bytes.len() {
            let mut reader = FrameReader::default();
            let mut seen = Vec::new();
            for part in bytes.chunks(piece) {
                reader.push(part);
                while let Some(document) = reader.next().unwrap() {
                    seen.push(decode::<ToAgent>(&document, 20).unwrap());
                }
            }
            assert_eq!(seen, frames);
        }
    }

    #[test]
    fn greetings_before_the_first_frame_are_skipped() {
        let hello = encode(&Hello::new("1", "s")).unwrap();
        let beat = encode(&ToAgent::Beat {}).unwrap();
        for (greeting, shown) in
            [("", ""), ("Welcome\n to  ada\n", "Welcome to ada"), ("\0\0{\"protocol\"", "\0\0{\"protocol\"")]
        {
            let all = [greeting.as_bytes(), &hello, &beat].concat();
            for piece in [1, 7, all.len()] {
                let mut reader = FrameReader::after_greeting();
                let (mut found, mut documents) = (None, 0);
                for part in all.chunks(piece) {
                    reader.push(part);
                    if reader.is_before_start() {
                        found = reader.find_start().unwrap();
                    }
                    while !reader.is_before_start() && reader.next().unwrap().is_some() {
                        documents += 1;
                    }
                }
                assert_eq!(
                    (found.as_deref().filter(|_| piece == all.len()), documents),
                    ((piece == all.len()).then_some(shown), 2)
                );
            }
        }
        let mut reader = FrameReader::after_greeting();
        reader.push(&[b'x'; GREETING_BYTES_MAX]);
        assert_eq!(reader.find_start(), Ok(None));
        reader.push(&hello);
        assert!(reader.find_start().is_err(), "it begins too late");
        assert_eq!(reader.greeting().len(), 200);
    }

    #[test]
    fn frame_over_limit_is_refused() {
        let mut reader = FrameReader::default();
        reader.push(&(FRAME_BYTES_MAX as u32 + 1).to_be_bytes());
        assert!(reader.next().is_err(), "too long, and nothing was allocated for it");
        let why = |text: &str| decode::<FromAgent>(text.as_bytes(), DIGITS_MAX).unwrap_err().0;
        assert_eq!(why(&"[".repeat(40)), "it is nested too deeply");
        assert_eq!(why(&format!("[{}]", "1,".repeat(VALUES_MAX + 1))), "it has too many values");
        assert_eq!(why(&format!("\"{}\"", "x".repeat(TEXT_BYTES_MAX + 1))), "a text is too long");
        assert_eq!(why("\"x\\\""), "a text is not terminated");
        let pong = |at_ns: &str| format!("{{\"pong\":{{\"number\":1,\"at_ns\":{at_ns}}}}}");
        assert_eq!(why(&pong("1000000000000000000")), "a number is too long");
        assert!(decode::<FromAgent>(pong("999999999999999999").as_bytes(), DIGITS_MAX).is_ok());
        assert!(why("{\"run_this\":{}}").starts_with("unknown variant"));
        // A mark within a text is none of the document.
        let text = "{\"closed\":{\"left\":[\"[[[[{{{{,,,,:::: 123456789012345678901234567890\"]}}";
        assert!(decode::<FromAgent>(text.as_bytes(), DIGITS_MAX).is_ok());
    }

    fn read_all(bytes: &[u8]) {
        let mut reader = FrameReader::default();
        for part in bytes.chunks(7) {
            reader.push(part);
            loop {
                match reader.next() {
                    Ok(Some(document)) => {
                        let _ = decode::<FromAgent>(&document, DIGITS_MAX);
                        let _ = decode::<ToAgent>(&document, 20);
                        let _ = decode::<Hello>(&document, 20);
                    }
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            read_all(&bytes);
            // The same as the document of a frame.
            let mut framed = (bytes.len() as u32).to_be_bytes().to_vec();
            framed.extend(&bytes);
            read_all(&framed);
        }

        #[test]
        fn document_like_text_parses_without_panic(text in "[\\[\\]{}\",:\\\\a-z0-9.e-]{0,120}") {
            let mut framed = (text.len() as u32).to_be_bytes().to_vec();
            framed.extend(text.as_bytes());
            read_all(&framed);
        }

        #[test]
        fn changed_frames_are_handled_without_panic(at in 0usize..400, byte in any::<u8>()) {
            let request = model::Request { tests: vec!["read:rnd4k:q8".into()], ..model::Request::default() };
            let plan = ToAgent::Plan { request: Box::new(request), seed: 1, number: 0, count: 2, clients_on_file_system: 1 };
            let mut bytes = encode(&plan).unwrap();
            let place = at % bytes.len();
            bytes[place] = byte;
            read_all(&bytes);
        }
    }
}
