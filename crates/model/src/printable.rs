//! Names from other programs and users, made safe to print.

/// Returns the text with active characters in visible form: `\n`, `\u{1b}`, `\u{202e}`.
///
/// These are control characters, line and paragraph separators, and characters that reorder or hide others. Code
/// points that are no characters also count, because HTML may not contain them in any form. Nothing else changes, so
/// that ordinary names in any script stay readable.
pub fn printable(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if affects_display(character) {
            escaped.extend(character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Returns true if the character would act on a display instead of being shown.
pub fn affects_display(character: char) -> bool {
    let reorders = matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    // Zero-width joiners stay: several scripts are written with them.
    let hides = matches!(
        character,
        '\u{ad}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{206a}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    );
    let separates = matches!(character, '\u{2028}' | '\u{2029}');
    let is_no_character = matches!(character, '\u{fdd0}'..='\u{fdef}') || character as u32 & 0xfffe == 0xfffe;
    character.is_control() || reorders || hides || separates || is_no_character
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn control_and_bidi_characters_are_escaped() {
        assert_eq!(printable("a\x1b[31mred\n\tb\u{9b}2J\x7f"), r"a\u{1b}[31mred\n\tb\u{9b}2J\u{7f}");
        assert_eq!(printable("exe.\u{202e}gpj\u{200b}\u{ffff}"), r"exe.\u{202e}gpj\u{200b}\u{ffff}");
    }

    #[test]
    fn ordinary_names_are_unchanged() {
        for name in ["/mnt/data", "zürich", "データ", "with space", r"C:\x", "می‌خواهم"] {
            assert_eq!(printable(name), name);
        }
    }

    proptest! {
        #[test]
        fn printable_text_has_no_control_or_bidi_characters(text in any::<String>()) {
            prop_assert!(!printable(&text).chars().any(affects_display));
        }
    }
}
