//! Tokens of Rust code: enough to separate comments, texts and names.

/// Kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Comment,
    /// A literal in double quotes, with its quotes.
    Text,
    /// A literal in single quotes.
    Character,
    Lifetime,
    /// A name or a keyword.
    Word,
    Space,
    /// Any other character.
    Sign,
}

/// A token, with the number of its first line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub kind: Kind,
    pub text: &'a str,
    pub line: usize,
}

/// Splits code into tokens. Together they are the whole code.
pub(super) fn tokens(code: &str) -> Vec<Token<'_>> {
    let (mut found, mut rest, mut line) = (Vec::new(), code, 1);
    while let Some(first) = rest.chars().next() {
        let (kind, length) = first_token(rest, first);
        let (text, after) = rest.split_at(length);
        found.push(Token { kind, text, line });
        if matches!(kind, Kind::Comment | Kind::Text | Kind::Space) {
            line += text.matches('\n').count();
        }
        rest = after;
    }
    found
}

/// Returns a code whose comments and literals are blanks. Its lines stay.
pub(super) fn code_only(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    for token in tokens(text) {
        match token.kind {
            Kind::Comment | Kind::Text | Kind::Character => {
                let blanks: Vec<_> = token.text.split('\n').map(|line| " ".repeat(line.len())).collect();
                code.push_str(&blanks.join("\n"));
            }
            Kind::Lifetime | Kind::Word | Kind::Space | Kind::Sign => code.push_str(token.text),
        }
    }
    code
}

/// Returns the kind and the length of the token at the start of a code.
fn first_token(code: &str, first: char) -> (Kind, usize) {
    let until = |is_inside: fn(char) -> bool| {
        code.char_indices().find(|(_, c)| !is_inside(*c)).map_or(code.len(), |(at, _)| at)
    };
    if code.starts_with("//") {
        return (Kind::Comment, code.find('\n').unwrap_or(code.len()));
    }
    if code.starts_with("/*") {
        return (Kind::Comment, block_comment_length(code));
    }
    if let Some(found) = literal(code) {
        return found;
    }
    match first {
        '\'' => match code[1..].find(|c| !is_word(c)).unwrap_or(code.len() - 1) {
            0 => (Kind::Sign, 1),
            length => (Kind::Lifetime, 1 + length),
        },
        'A'..='Z' | 'a'..='z' | '_' => (Kind::Word, until(is_word)),
        _ if first.is_whitespace() => (Kind::Space, until(char::is_whitespace)),
        _ => (Kind::Sign, first.len_utf8()),
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the kind and the length of the literal at the start of a code, if there is one.
fn literal(code: &str) -> Option<(Kind, usize)> {
    let quoted = code.strip_prefix('b').unwrap_or(code);
    let prefix = code.len() - quoted.len();
    let (kind, length) = match quoted.as_bytes() {
        [b'"', ..] => (Kind::Text, quoted_length(quoted, b'"')),
        [b'r', b'"' | b'#', ..] => (Kind::Text, raw_length(quoted)?),
        [b'\'', b'\\', ..] => (Kind::Character, quoted_length(quoted, b'\'')),
        [b'\'', ..] => {
            // A lifetime has no closing quote after its first character.
            let inside = quoted[1..].chars().next()?;
            let length = 1 + inside.len_utf8();
            (Kind::Character, quoted[length..].starts_with('\'').then_some(length + 1)?)
        }
        _ => return None,
    };
    Some((kind, prefix + length))
}

fn block_comment_length(code: &str) -> usize {
    let (bytes, mut depth, mut at) = (code.as_bytes(), 0, 0);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn quoted_length(code: &str, quote: u8) -> usize {
    let (bytes, mut at) = (code.as_bytes(), 1);
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    if at < bytes.len() { at + 1 } else { code.len() }
}

fn raw_length(code: &str) -> Option<usize> {
    let hashes = code[1..].bytes().take_while(|byte| *byte == b'#').count();
    let body = code[1 + hashes..].strip_prefix('"')?;
    let closing = format!("\"{}", "#".repeat(hashes));
    let end = body.find(&closing).map_or(body.len(), |at| at + closing.len());
    Some(2 + hashes + end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_token_is_recognised() {
        let code = "é_1 \"b\\\"\n\" b'x' '\\'' 'é' &'o r#\"k \" l\"# r#q br\"\" /* d /* e */ */\n// f";
        let all = tokens(code);
        assert_eq!(all.iter().map(|token| token.text).collect::<String>(), code);
        let of = |kind: Kind| {
            let found = all.iter().filter(|token| token.kind == kind);
            found.map(|token| token.text).collect::<Vec<_>>()
        };
        assert_eq!(of(Kind::Text), ["\"b\\\"\n\"", "r#\"k \" l\"#", "br\"\""]);
        assert_eq!(of(Kind::Character), ["b'x'", "'\\''", "'é'"]);
        assert_eq!(of(Kind::Lifetime), ["'o"]);
        assert_eq!(of(Kind::Word), ["_1", "r", "q"]);
        assert_eq!(of(Kind::Sign), ["é", "&", "#"]);
        assert_eq!(of(Kind::Comment), ["/* d /* e */ */", "// f"]);
        assert_eq!(all.last().map(|token| token.line), Some(3));
    }

    #[test]
    fn code_excludes_comments_and_texts() {
        let text = "a // b\nc /* d /* e */ f */ g \"h // \\\" i\" j r#\"k \" l\"# m 'n' '\\'' &'o p r#q";
        let code = code_only(text);
        let words: Vec<_> = code.split_whitespace().collect();
        assert_eq!(words, ["a", "c", "g", "j", "m", "&'o", "p", "r#q"]);
        assert_eq!(code.lines().count(), 2);
    }

    #[test]
    fn unclosed_literal_extends_to_end_of_code() {
        for code in ["\"a", "\"a\\", "r#\"a\"", "'\\", "b'\\é", "/* a", "/*/"] {
            let all = tokens(code);
            assert_eq!((all.len(), all[0].text), (1, code), "{code}");
        }
        assert_eq!(tokens("'").len(), 1);
    }
}
