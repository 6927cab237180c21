//! Names that others chose, made harmless for whoever looks at them.

/// The text with every character that would act instead of show written visibly: `\n`, `\u{1b}`, `\u{202e}`.
///
/// Nothing else changes, so that ordinary names in any script stay readable.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if acts(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Whether it controls, separates, reorders or hides others rather than being seen.
pub(crate) fn acts(character: char) -> bool {
    let reorders = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    // Zero-width joiners stay: several scripts are written with them.
    let hides = matches!(
        character,
        '\u{ad}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{206a}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    );
    // Neither may stand in HTML, however it is written.
    let is_no_character = matches!(character, '\u{fdd0}'..='\u{fdef}') || character as u32 & 0xfffe == 0xfffe;
    let separates = matches!(character, '\u{2028}' | '\u{2029}');
    character.is_control() || reorders || hides || is_no_character || separates
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_acts_is_shown_instead() {
        assert_eq!(shown("a\x1b[31mred\n\u{9b}2J"), r"a\u{1b}[31mred\n\u{9b}2J");
        assert_eq!(shown("exe.\u{202e}gpj\u{200b}\u{ffff}"), r"exe.\u{202e}gpj\u{200b}\u{ffff}");
        for name in ["testvm", "zürich", "データ", "with space", r"C:\x"] {
            assert_eq!(shown(name), name);
        }
    }

    proptest! {
        #[test]
        fn nothing_that_acts_is_left(text in any::<String>()) {
            prop_assert!(!shown(&text).chars().any(acts));
        }
    }
}
