//! The marker in a work directory: who made it, and which names it may contain.

use serde::{Deserialize, Serialize};

/// Name of the marker file.
pub const FILE_NAME: &str = "skye-marker";
/// What names of work directories begin with.
pub const DIRECTORY_PREFIX: &str = "skye.";

/// Written and made durable before the first file, so that whatever is left can be told from what is not ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// Host that made the directory.
    pub host: String,
    /// Boot of that host: a process of another boot is dead.
    pub boot_id: String,
    /// The process.
    pub pid: u32,
    /// When it started, in clock ticks since boot: tells it from a later process of the same number.
    pub start_ticks: u64,
    /// The names that may be in the directory.
    pub rules: Vec<NameRule>,
}

/// A family of names: a prefix and a number in hexadecimal digits, below a count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameRule {
    /// What the names begin with: lower-case letters and hyphens.
    pub prefix: String,
    /// Hexadecimal digits after it, leading zeros included.
    pub digits: u8,
    /// Numbers are below this.
    pub count: u64,
    /// Whether they are directories, and then what may be in them; null for files and links.
    pub inside: Option<Vec<NameRule>>,
}

impl Marker {
    /// Whether skye could have written it: every rule has a name to begin with and digits to count with.
    pub fn is_sound(&self) -> bool {
        fn sound(rules: &[NameRule]) -> bool {
            rules.iter().all(|rule| {
                rule.has_safe_prefix()
                    && (1..=15).contains(&rule.digits)
                    && rule.inside.as_deref().is_none_or(sound)
            })
        }
        sound(&self.rules)
    }
}

impl NameRule {
    fn has_safe_prefix(&self) -> bool {
        !self.prefix.is_empty() && self.prefix.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    }

    /// Names of files or links.
    pub fn files(prefix: impl Into<String>, digits: usize, count: u64) -> Self {
        Self { prefix: prefix.into(), digits: digits as u8, count, inside: None }
    }

    /// Names of directories that contain such names.
    pub fn directories(prefix: impl Into<String>, digits: usize, count: u64, inside: Vec<Self>) -> Self {
        Self { prefix: prefix.into(), digits: digits as u8, count, inside: Some(inside) }
    }

    /// Whether this rule produces the name.
    pub fn produces(&self, name: &[u8]) -> bool {
        let Some(digits) = name.strip_prefix(self.prefix.as_bytes()).filter(|_| self.has_safe_prefix())
        else {
            return false;
        };
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if digits.len() != usize::from(self.digits) || digits.len() > 15 || !digits.iter().all(is_digit) {
            return false;
        }
        let number = digits.iter().fold(0u64, |number, byte| {
            number << 4 | u64::from(if byte.is_ascii_digit() { byte - b'0' } else { byte - b'a' + 10 })
        });
        !digits.is_empty() && number < self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_the_rule_produces_are_ours() {
        let rule = NameRule::files("data-", 4, 0x12);
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
        // A marker that somebody has changed widens nothing to names without a number.
        assert!(!NameRule::files("", 4, 10).produces(b"0001"));
        assert!(!NameRule::files("../data-", 4, 10).produces(b"../data-0001"));
        assert!(!NameRule::files("a", 0, 10).produces(b"a"));
    }
}
