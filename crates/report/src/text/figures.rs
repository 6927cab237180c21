//! Sentences that differ in nothing but their figures, told as one: "waited 16 to 33 % of their time".

/// Units in which the same thing may be given: what they measure, their name, and how much one of them is.
const UNITS: [(&str, &str, f64); 15] = [
    ("time", "ns", 1.0),
    ("time", "µs", 1e3),
    ("time", "ms", 1e6),
    ("time", "s", 1e9),
    ("bytes", "B", 1.0),
    ("bytes", "kB", 1e3),
    ("bytes", "MB", 1e6),
    ("bytes", "GB", 1e9),
    ("bytes", "TB", 1e12),
    ("bytes", "PB", 1e15),
    ("bytes", "KiB", 1024.0),
    ("bytes", "MiB", 1_048_576.0),
    ("bytes", "GiB", 1_073_741_824.0),
    ("bytes", "TiB", 1_099_511_627_776.0),
    ("bytes", "PiB", 1_125_899_906_842_624.0),
];
/// Units that others follow: "2 min 11 s" is one figure of two numbers, and is left as it is.
const COMPOSED: [&str; 2] = ["h", "min"];
/// What may stand around a figure in its word.
const AFTER: [char; 6] = ['.', ',', ';', ':', ')', '%'];

/// A part of a sentence.
enum Piece<'a> {
    /// A word that must be the same.
    Word(&'a str),
    /// What may differ.
    Figure(Figure<'a>),
}

/// A number that stands alone, with its unit if it has one; or a depth, "Q32T4".
struct Figure<'a> {
    before: &'a str,
    written: &'a str,
    /// The unit, as it is written.
    unit: Option<&'a str>,
    after: &'a str,
    /// What it measures: figures of different things cannot be compared.
    measures: &'static str,
    value: f64,
}

/// The sentence without its figures: two with the same pattern can be [`merged`].
pub(crate) fn pattern(text: &str) -> String {
    let blanked = pieces(text).into_iter().map(|piece| match piece {
        Piece::Word(word) => word.to_owned(),
        // No printable text contains this character.
        Piece::Figure(figure) => format!("{}\0{}{}", figure.before, figure.measures, figure.after),
    });
    blanked.collect::<Vec<_>>().join(" ")
}

/// Sentences of the same pattern as one: where their figures differ, from the lowest to the highest.
pub(crate) fn merged(texts: &[&str]) -> String {
    let [first, rest @ ..] = texts else { return String::new() };
    if rest.iter().all(|text| text == first) {
        return (*first).to_owned();
    }
    let others: Vec<_> = rest.iter().map(|text| pieces(text)).collect();
    let words = pieces(first).into_iter().enumerate().map(|(index, piece)| match piece {
        Piece::Word(word) => word.to_owned(),
        Piece::Figure(figure) => {
            let (mut low, mut high) = (&figure, &figure);
            for other in &others {
                if let Some(Piece::Figure(other)) = other.get(index) {
                    low = if other.value < low.value { other } else { low };
                    high = if other.value > high.value { other } else { high };
                }
            }
            format!("{}{}{}", figure.before, range(low, high), figure.after)
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// "16", "16 to 33", "16 to 33 ms", "900 µs to 1.2 ms".
fn range(low: &Figure, high: &Figure) -> String {
    let with_unit = |figure: &Figure| match figure.unit {
        Some(unit) => format!("{} {unit}", figure.written),
        None => figure.written.to_owned(),
    };
    match (low.value == high.value, low.unit == high.unit) {
        (true, _) => with_unit(low),
        (false, true) => format!("{} to {}", low.written, with_unit(high)),
        (false, false) => format!("{} to {}", with_unit(low), with_unit(high)),
    }
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let next = words.peek().copied();
        if next.is_some_and(|unit| COMPOSED.contains(&bare(unit))) && number(word).is_some() {
            pieces.push(Piece::Word(word));
            pieces.extend(words.next().map(Piece::Word));
            // The smaller unit.
            if let Some(rest) = words.next_if(|rest| number(rest).is_some()) {
                pieces.push(Piece::Word(rest));
                pieces.extend(words.next().map(Piece::Word));
            }
            continue;
        }
        let Some(mut figure) = figure(word) else {
            pieces.push(Piece::Word(word));
            continue;
        };
        let may_have_unit = figure.after.is_empty() && figure.measures == "number";
        let unit = next.filter(|_| may_have_unit).and_then(|word| {
            let known = UNITS.iter().find(|(_, unit, _)| *unit == bare(word))?;
            Some((word, known))
        });
        if let Some((word, (measures, _, factor))) = unit {
            words.next();
            figure = Figure {
                unit: Some(bare(word)),
                after: &word[bare(word).len()..],
                measures,
                value: figure.value * factor,
                ..figure
            };
        }
        pieces.push(Piece::Figure(figure));
    }
    pieces
}

/// The word without the punctuation after it.
fn bare(word: &str) -> &str {
    word.trim_end_matches(AFTER)
}

fn figure(word: &str) -> Option<Figure<'_>> {
    let inner = word.strip_prefix('(').unwrap_or(word);
    let before = &word[..word.len() - inner.len()];
    let written = bare(inner);
    let (measures, value) =
        number(written).map(|value| ("number", value)).or_else(|| Some(("depth", depth(written)?)))?;
    Some(Figure { before, written, unit: None, after: &inner[written.len()..], measures, value })
}

/// The value of "16", "4.31", "12,345" or "<0.1"; `None` for every other word, such as "6.12.9", "nvme0n1" or "1,2".
fn number(word: &str) -> Option<f64> {
    let digits = word.strip_prefix('<').unwrap_or(word);
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let mut groups = whole.split(',');
    let first = groups.next().unwrap_or_default();
    let groups: Vec<_> = groups.collect();
    let in_thousands = groups.is_empty() || first.len() <= 3 && groups.iter().all(|group| group.len() == 3);
    if !is_digits(first)
        || !is_digits(fraction)
        || !groups.iter().all(|group| is_digits(group))
        || !in_thousands
    {
        return None;
    }
    let value: f64 = digits.replace(',', "").parse().ok()?;
    // Less than what is written.
    Some(if digits.len() < word.len() { value * 0.99 } else { value })
}

/// Operations in flight of "Q32T4".
fn depth(word: &str) -> Option<f64> {
    let (depth, threads) = word.strip_prefix('Q')?.split_once('T')?;
    Some(f64::from(depth.parse::<u32>().ok()?) * f64::from(threads.parse::<u32>().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn figures_become_ranges_and_keep_their_units() {
        for (texts, expected) in [
            (
                vec!["waited 33 % of 2.5 s.", "waited 16 % of 0.5 s.", "waited 20 % of 2.5 s."],
                "waited 16 to 33 % of 0.5 to 2.5 s.",
            ),
            (vec!["took 900 µs, or more", "took 1.2 ms, or more"], "took 900 µs to 1.2 ms, or more"),
            (vec!["(12,345 of 99,999)", "(9,876 of 99,999)"], "(9,876 to 12,345 of 99,999)"),
            (vec!["at 2,310 MB/s;", "at 988 MB/s;"], "at 988 to 2,310 MB/s;"),
            (vec!["asked for as Q2T1;", "asked for as Q64T1;"], "asked for as Q2T1 to Q64T1;"),
            (vec!["40% or <0.1%", "4% or 0.3%"], "4 to 40% or <0.1 to 0.3%"),
            (vec!["wait 1 to 5 minutes", "wait 1 to 5 minutes"], "wait 1 to 5 minutes"),
        ] {
            assert!(texts.iter().all(|text| pattern(text) == pattern(texts[0])), "{texts:?}");
            assert_eq!(merged(&texts), expected);
        }
    }

    #[test]
    fn what_only_contains_digits_is_no_figure() {
        for [one, other] in [
            ["on sda1", "on sda2"],
            ["Try read:seq128k:t4", "Try read:seq128k:t8"],
            ["on ext3", "on ext4"],
            ["Linux 6.12.9", "Linux 6.12.8"],
            ["at data.3", "at data.4"],
            ["at -3", "at -4"],
            ["for 2 min 11 s", "for 2 min 12 s"],
            ["for 5 min.", "for 6 min."],
            ["at 900 MB/s", "at 9 IOPS"],
            ["took 3 s", "took 3 kB"],
            ["took 3 s", "took 3"],
            ["1,2", "1,3"],
        ] {
            assert_ne!(pattern(one), pattern(other));
        }
    }

    proptest! {
        #[test]
        fn a_sentence_alone_is_itself(text in "[a-z0-9.,:;%()<> QT]{0,60}") {
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            prop_assert_eq!(merged(&[&text]), text.clone());
            let other = format!(" {text}");
            prop_assert_eq!(words(&merged(&[&text, &other])), words(&text));
            prop_assert_eq!(pattern(&text), pattern(&other));
        }
    }
}
