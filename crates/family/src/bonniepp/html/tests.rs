//! The page as a reader gets it, and as a browser parses it.

use super::super::{Layout, read, sample};
use super::*;
use proptest::prelude::*;

/// Elements without an end tag.
const VOID: [&str; 2] = ["meta", "br"];

/// Outputs of 2.00a, in the order in which the original compared them.
fn examples() -> Vec<Line> {
    let texts = [
        include_str!("../../../tests/data/bonnie++-2.00a_n16_4096_1024_4dirs_4k.txt"),
        include_str!("../../../tests/data/bonnie++-2.00a_s0_n128.stdout"),
        include_str!("../../../tests/data/bonnie++-2.00a_s1G_r512_n4.stdout"),
        include_str!("../../../tests/data/bonnie++-2.00a_s512_64k_2000seeks_16procs_c4.out"),
        include_str!("../../../tests/data/bonnie++-2.00a_s512_64k_2000seeks_3procs_c4.out"),
        include_str!("../../../tests/data/bonnie++-2.00a_x2_header.csv"),
    ];
    texts.iter().flat_map(|text| read(text).0).collect()
}

fn old_examples() -> Vec<Line> {
    read(include_str!("../../../tests/data/bonnie++-1.03e_x2.csv")).0
}

/// Returns the tags of a document in order, with their attributes. Panics if the text is no document.
fn tags(text: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut tags = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let mut rest = text.strip_prefix("<!DOCTYPE html>\n").unwrap();
    while let Some((between, after)) = rest.split_once('<') {
        assert!(!between.contains('>'), "a stray > in {between}");
        // Values of attributes have no `>`: it is escaped.
        let (tag, after) = after.split_once('>').unwrap();
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "closes what is not open");
            continue;
        }
        let closed = tag.ends_with('/');
        let tag = tag.trim_end_matches('/');
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()), "{name}");
        if !closed && !VOID.contains(&name) {
            open.push(name.into());
        }
        tags.push((name.into(), self::attributes(attributes)));
    }
    assert_eq!((open, rest), (vec![], "\n"));
    tags
}

fn attributes(mut text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    while !text.trim().is_empty() {
        let (name, rest) = text.split_once("=\"").unwrap();
        let (value, rest) = rest.split_once('"').unwrap();
        assert!(found.iter().all(|(other, _)| other != name.trim()), "{name} twice");
        found.push((name.trim().into(), value.into()));
        text = rest;
    }
    found
}

/// Number of cells in each row of the table, including those that reach into it from above.
fn widths(text: &str) -> Vec<usize> {
    let mut rows: Vec<usize> = Vec::new();
    let mut below: Vec<usize> = Vec::new();
    for (name, attributes) in tags(text) {
        let span = |word: &str| {
            attributes.iter().find(|(name, _)| name == word).map_or(1, |(_, value)| value.parse().unwrap())
        };
        match name.as_str() {
            "tr" => {
                rows.push(below.first().copied().unwrap_or(0));
                below = below.into_iter().skip(1).collect();
            }
            "td" | "th" => {
                *rows.last_mut().unwrap() += span("colspan");
                below.resize(below.len().max(span("rowspan") - 1), 0);
                for row in &mut below[..span("rowspan") - 1] {
                    *row += span("colspan");
                }
            }
            _ => {}
        }
    }
    assert!(below.iter().all(|cells| *cells == 0), "a cell reaches below the table");
    rows
}

fn assert_sound(text: &str) {
    let tags = tags(text);
    let names: Vec<_> = tags.iter().map(|(name, _)| name.as_str()).collect();
    assert!(!names.iter().any(|name| ["script", "font", "link", "img", "iframe"].contains(name)));
    assert!(
        !text.contains("http://") || text.matches("http://").count() == text.matches("<svg xmlns=").count()
    );
    for (name, attributes) in &tags {
        assert!(attributes.iter().all(|(name, _)| !name.starts_with("on")));
        assert!(name != "th" || attributes.iter().any(|(name, _)| name == "scope"));
    }
    let widths = widths(text);
    assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "rows of {widths:?} cells");
}

#[test]
fn page_snapshot() {
    let mut lines = old_examples();
    lines[1].name = "other <b>".into();
    let text = csv2html(&lines);
    assert_sound(&text);
    insta::assert_snapshot!(text.replace(STYLE, "…\n"));
}

#[test]
fn pages_are_sound() {
    let mixed = [examples(), old_examples()].concat();
    for lines in
        [&examples()[..], &examples()[1..2], &old_examples(), &mixed, &[], &[Line::new(Layout::V1_03, "")]]
    {
        assert_sound(&csv2html(lines));
    }
}

#[test]
fn page_declares_language_charset_and_style() {
    let text = csv2html(&examples());
    for needed in [
        "<html lang=\"en\">",
        "<meta charset=\"utf-8\">",
        "name=\"viewport\"",
        "color-scheme: light dark",
        "prefers-color-scheme: dark",
        "td.shade { background: hsl(var(--hue)",
        "overflow-x: auto",
    ] {
        assert!(text.contains(needed), "{needed}");
    }
}

/// Returns the start tag of the cell with this text, without its `>`.
fn cell_of(text: &str, value: &str) -> String {
    let end = text.find(&format!(">{value}</td>")).unwrap();
    let start = text[..end].rfind("<td").unwrap();
    text[start..end].to_owned()
}

#[test]
fn cell_colours_match_the_original() {
    let text = csv2html(&examples());
    // Shares of green in these cells of the original, out of 255.
    for (value, green) in [
        ("13891", 0xff),
        ("910", 0x06),
        ("1800", 0x4c),
        ("851", 0xc1),
        ("1137", 0x72),
        ("26887us", 0x6b),
        ("20187us", 0xf6),
        ("64069us", 0),
    ] {
        let hue: f64 =
            cell_of(&text, value).split("--hue:").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
        assert!((hue - 120.0 * f64::from(green) / 255.0).abs() <= 1.0, "{value}: {hue}");
    }
}

#[test]
fn displayed_units_match_the_numbers() {
    let text = csv2html(&examples());
    let count = |needle: &str| text.matches(needle).count();
    assert_eq!((count(">KiB/s<"), count(">MiB/s<"), count(">/s<")), (2, 3, 7));
    assert!(text.contains(">233</td>") && text.contains(">1159</td>") && !text.contains(">0</td>"));
    assert!(text.contains(">+++++</td>"));
    assert!(csv2html(&old_examples()).contains(">460</td>"));
}

#[test]
fn columns_without_values_are_left_out() {
    let has = |lines: &[Line], head: &str| csv2html(lines).contains(&format!(">{head}</th>"));
    let examples = examples();
    assert!(
        has(&examples, "Concurrency") && has(&examples, "Directories") && has(&examples, "Sequential create")
    );
    let data = &examples[3..5];
    assert!(!has(data, "Directories") && !has(data, "Sequential create") && !has(data, "Version"));
    let old = old_examples();
    assert!(!has(&old, "Concurrency") && !has(&old, "Latency") && has(&old, "Chunk"));
    let mixed = [examples[0].clone(), old[0].clone()];
    assert!(has(&mixed, "Version") && csv2html(&mixed).contains(MIXED));
    assert!(!csv2html(&old).contains(MIXED) && !csv2html(&examples).contains(MIXED));
}

#[test]
fn hostile_names_are_escaped_in_html() {
    let mut lines = examples();
    lines[0].name = "<script>alert(1)</script>\" onload='x'\u{202e}\u{0}]]>&".into();
    lines[1].program_version = "</th><b>".into();
    let text = csv2html(&lines);
    assert_sound(&text);
    assert!(!text.contains("<script") && !text.contains("<b>") && !text.contains('\u{202e}'), "{text}");
}

/// Contrast of two colours by WCAG 2, which requires 4.5 for text of this size.
fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
    let luminance = |rgb: [f64; 3]| {
        let linear = rgb.map(|c| if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05
    };
    let (one, other) = (luminance(one), luminance(other));
    one.max(other) / one.min(other)
}

fn hsl(hue: f64, saturation: f64, lightness: f64) -> [f64; 3] {
    [0.0, 8.0, 4.0].map(|n| {
        let k = (n + hue / 30.0) % 12.0;
        lightness - saturation * lightness.min(1.0 - lightness) * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0)
    })
}

#[test]
fn text_is_readable_on_every_colour() {
    let rgb = |hex: u32| [16, 8, 0].map(|shift| f64::from(hex >> shift & 255) / 255.0);
    assert!(STYLE.contains("--text: #16181d") && STYLE.contains("--saturation: 72%; --lightness: 80%"));
    assert!(STYLE.contains("--text: #f0f2f5") && STYLE.contains("--saturation: 48%; --lightness: 22%"));
    for hue in 0..=120 {
        let light = contrast(rgb(0x16181d), hsl(f64::from(hue), 0.72, 0.80));
        let dark = contrast(rgb(0xf0f2f5), hsl(f64::from(hue), 0.48, 0.22));
        assert!(light >= 7.0 && dark >= 7.0, "{hue}: {light} {dark}");
    }
}

proptest! {
    #[test]
    fn html_is_well_formed_for_any_lines(
        mut lines in prop::collection::vec(sample::any_line(), 0..4),
        name in any::<String>(),
    ) {
        if let Some(line) = lines.first_mut() {
            line.name = name;
        }
        assert_sound(&csv2html(&lines));
    }
}
