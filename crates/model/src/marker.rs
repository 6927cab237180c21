//! The marker in a work directory: its maker, and the names that the directory may contain.

use serde::{Deserialize, Serialize};

/// Name of the marker file.
pub const FILE_NAME: &str = "skye-marker";
/// Prefix of the names of work directories.
pub const DIRECTORY_PREFIX: &str = "skye.";
/// Number of letters and digits at the end of these names.
pub const LETTERS: usize = 6;

/// Returns true if skye could have made a directory of that name.
pub fn is_work_directory(name: &[u8]) -> bool {
    let letters = name.strip_prefix(DIRECTORY_PREFIX.as_bytes()).unwrap_or_default();
    letters.len() == LETTERS && letters.iter().all(u8::is_ascii_alphanumeric)
}

/// Begin of the name of a program that is sent to a host. Its file has this name only as long as it is empty.
pub const SENT_PREFIX: &str = "skye-sent.";

/// Returns true for a name that the program of a host had while its file was empty.
pub fn is_sent_program(name: &[u8]) -> bool {
    let letters = name.strip_prefix(SENT_PREFIX.as_bytes()).unwrap_or_default();
    letters.len() == LETTERS && letters.iter().all(u8::is_ascii_alphanumeric)
}

/// Digits of a client's number in the name of its directory.
const CLIENT_DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Returns the first two letters of the name of a client's work directory. Clients below 3844 have different ones, so
/// that two of them never make the same name in a directory that they share.
pub fn letters_of_client(client: u32) -> String {
    let digit = |place: u32| char::from(CLIENT_DIGITS[(client / place % 62) as usize]);
    [digit(62), digit(1)].iter().collect()
}

/// Client of a run that several make together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Its number.
    pub number: u32,
    /// Name of the run, drawn at random, which all its clients have.
    pub run: String,
}

/// Marker that identifies files of skye, so that leftovers can be removed. It is written and made durable before the
/// first file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// Host that made the directory.
    pub host: String,
    /// Boot ID of that host: a process of another boot is dead.
    pub boot_id: String,
    /// Process number of the maker.
    pub pid: u32,
    /// Start of that process, in clock ticks since boot. It distinguishes the process from a later one with the same
    /// number.
    pub start_ticks: u64,
    /// Number of the client that made it; null in a run without clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<u32>,
    /// Name of the run that this client belongs to; null in a run without clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The names that may be in the directory.
    pub rules: Vec<NamePattern>,
}

/// Largest number of letters that a name has beside its number.
pub const LETTERS_MAX: u8 = 12;

/// A family of names: a prefix and a number in hexadecimal digits, below a count. Letters may come before or after
/// them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamePattern {
    /// Prefix of the names: lower-case letters and hyphens.
    pub prefix: String,
    /// Number of hexadecimal digits after the prefix, leading zeros included.
    pub digits: u8,
    /// All numbers are below this.
    pub count: u64,
    /// Names that may be inside, where these are names of directories; null for files and links.
    pub inside: Option<Vec<NamePattern>>,
    /// Letters beside prefix and number, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub letters: Option<RandomSuffix>,
}

/// Place of the letters from `a-z0-9A-Z` in a name, and their largest number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RandomSuffix {
    /// Before prefix and number.
    Before(u8),
    /// After prefix and number.
    After(u8),
}

impl RandomSuffix {
    fn length_max(self) -> u8 {
        let (Self::Before(length_max) | Self::After(length_max)) = self;
        length_max
    }
}

impl Marker {
    /// Returns true if skye could have written the marker.
    ///
    /// Every rule needs a prefix and digits. Letters beside them must be few, and a directory that has something in it
    /// has none in its name.
    pub fn is_sound(&self) -> bool {
        fn sound(rules: &[NamePattern]) -> bool {
            rules.iter().all(|rule| {
                rule.has_safe_prefix()
                    && rule.has_safe_letters()
                    && (1..=15).contains(&rule.digits)
                    && rule.inside.as_deref().is_none_or(sound)
            })
        }
        sound(&self.rules)
    }
}

impl NamePattern {
    fn has_safe_prefix(&self) -> bool {
        !self.prefix.is_empty() && self.prefix.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    }

    fn has_safe_letters(&self) -> bool {
        let is_bare = self.inside.as_ref().is_none_or(Vec::is_empty);
        self.letters.is_none_or(|letters| is_bare && (1..=LETTERS_MAX).contains(&letters.length_max()))
    }

    /// Returns the same rule with letters beside prefix and number.
    #[must_use]
    pub fn with_letters(self, letters: Option<RandomSuffix>) -> Self {
        Self { letters, ..self }
    }

    /// Returns the part of a name that holds prefix and number; `None` where the rest does not fit this rule.
    fn numbered<'a>(&self, name: &'a [u8]) -> Option<&'a [u8]> {
        let Some(letters) = self.letters else { return Some(name) };
        let len = self.prefix.len() + usize::from(self.digits);
        let (numbered, beside) = match letters {
            RandomSuffix::Before(_) => {
                let (beside, numbered) = name.split_at_checked(name.len().checked_sub(len)?)?;
                (numbered, beside)
            }
            RandomSuffix::After(_) => name.split_at_checked(len)?,
        };
        let is_short = beside.len() <= usize::from(letters.length_max().min(LETTERS_MAX));
        (is_short && beside.iter().all(u8::is_ascii_alphanumeric)).then_some(numbered)
    }

    /// Returns a rule for names of files or links.
    pub fn files(prefix: impl Into<String>, digits: usize, count: u64) -> Self {
        Self { prefix: prefix.into(), digits: digits as u8, count, inside: None, letters: None }
    }

    /// Returns a rule for names of directories that contain the names of `inside`.
    pub fn directories(prefix: impl Into<String>, digits: usize, count: u64, inside: Vec<Self>) -> Self {
        Self { prefix: prefix.into(), digits: digits as u8, count, inside: Some(inside), letters: None }
    }

    /// Returns true if this rule produces the name.
    pub fn produces(&self, name: &[u8]) -> bool {
        self.number_of(name).is_some_and(|number| number < self.count)
    }

    /// Returns the number in a name of the kind that this rule produces, whatever its count is.
    pub fn number_of(&self, name: &[u8]) -> Option<u64> {
        let numbered = self.numbered(name).filter(|_| self.has_safe_prefix());
        let digits = numbered.and_then(|name| name.strip_prefix(self.prefix.as_bytes()))?;
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if digits.len() != usize::from(self.digits) || digits.len() > 15 || !digits.iter().all(is_digit) {
            return None;
        }
        let number = digits.iter().fold(0u64, |number, byte| {
            number << 4 | u64::from(if byte.is_ascii_digit() { byte - b'0' } else { byte - b'a' + 10 })
        });
        (!digits.is_empty()).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_one_directory_get_unique_names() {
        let mut seen = std::collections::HashSet::new();
        for client in 0..3844 {
            let letters = letters_of_client(client);
            assert!(is_work_directory(format!("skye.{letters}abcd").as_bytes()), "{letters}");
            assert!(seen.insert(letters), "{client}");
        }
    }

    #[test]
    fn only_names_matching_the_pattern_are_accepted() {
        let rule = NamePattern::files("data-", 4, 0x12);
        assert!(rule.produces(b"data-0000") && rule.produces(b"data-0011"));
        for name in [
            "data-0012",
            "data-000",
            "data-00000",
            "data-00A0",
            "data-+001",
            "data-",
            "Data-0001",
            "precious",
        ] {
            assert!(!rule.produces(name.as_bytes()), "{name}");
        }
        // A changed marker does not widen a rule to names without a number.
        assert!(!NamePattern::files("", 4, 10).produces(b"0001"));
        assert!(!NamePattern::files("../data-", 4, 10).produces(b"../data-0001"));
        assert!(!NamePattern::files("a", 0, 10).produces(b"a"));
    }

    #[test]
    fn letters_match_only_at_their_position_and_within_limit() {
        let rule = |letters| NamePattern::files("f", 8, 0x10).with_letters(Some(letters));
        let (after, before) = (rule(RandomSuffix::After(12)), rule(RandomSuffix::Before(12)));
        for name in ["f0000000f", "f0000000fa", "f0000000fabcXYZ012345", "f00000001f00000002"] {
            assert!(after.produces(name.as_bytes()), "{name}");
        }
        for name in ["f0000000f", "af0000000f", "abcXYZ012345f0000000f", "f99999999f00000002"] {
            assert!(before.produces(name.as_bytes()), "{name}");
        }
        for name in [
            "",
            "f",
            "f0000000",
            "f00000010a",
            "f0000000gab",
            "f0000000F",
            "f0000000fa.b",
            "f0000000fa b",
            "f0000000f\u{e4}",
            "f0000000fabcXYZ0123456",
            "g0000000fa",
            ".f0000000f",
            "notes.txt",
        ] {
            assert!(!after.produces(name.as_bytes()), "{name}");
        }
        for name in ["", "af00000010", "a.f0000000f", "abcXYZ0123456f0000000f", "af0000000fa", ".f0000000f"] {
            assert!(!before.produces(name.as_bytes()), "{name}");
        }
        // Without letters, none.
        assert!(!NamePattern::files("f", 8, 0x10).produces(b"f0000000fa"));
        assert!(!rule(RandomSuffix::After(200)).produces(b"f0000000f0123456789abc"));
    }

    #[test]
    fn random_suffixes_are_validated_and_older_markers_parse() {
        let marker = |rule| Marker {
            host: "ada".into(),
            boot_id: "b".into(),
            pid: 1,
            start_ticks: 2,
            client: None,
            run: None,
            rules: vec![NamePattern::directories("t", 4, 2, vec![rule])],
        };
        let files = || NamePattern::files("f", 8, 10);
        let empty = || NamePattern::directories("m", 8, 10, vec![]);
        for letters in [None, Some(RandomSuffix::Before(12)), Some(RandomSuffix::After(1))] {
            assert!(marker(files().with_letters(letters)).is_sound());
            assert!(marker(empty().with_letters(letters)).is_sound());
        }
        for letters in [
            RandomSuffix::Before(0),
            RandomSuffix::After(0),
            RandomSuffix::Before(13),
            RandomSuffix::After(255),
        ] {
            assert!(!marker(files().with_letters(Some(letters))).is_sound(), "{letters:?}");
        }
        let full =
            NamePattern::directories("d", 5, 10, vec![files()]).with_letters(Some(RandomSuffix::After(12)));
        assert!(!marker(full).is_sound());

        let plain = r#"{"prefix":"f","digits":8,"count":10,"inside":null}"#;
        assert_eq!(serde_json::to_string(&files()).unwrap(), plain);
        assert_eq!(serde_json::from_str::<NamePattern>(plain).unwrap(), files());
        let with_letters = files().with_letters(Some(RandomSuffix::After(12)));
        let text = r#"{"prefix":"f","digits":8,"count":10,"inside":null,"letters":{"after":12}}"#;
        assert_eq!(serde_json::to_string(&with_letters).unwrap(), text);
        assert_eq!(serde_json::from_str::<NamePattern>(text).unwrap(), with_letters);
    }
}
