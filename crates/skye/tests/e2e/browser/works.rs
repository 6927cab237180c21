//! The browser itself: every flaw of a page is found, and a flawless page has no complaints. Also the pages that the
//! program makes.

use std::fs;
use std::path::Path;

use rig::{Rig, Spec};

use super::devtools::Browser;
use super::{WIDTHS, assert_presentable, complaints, complaints_in};
use crate::support::program::{rig_program, skye};
use crate::support::scratch;

/// Returns a page with this head, these styles, and this body.
fn page(head: &str, style: &str, body: &str) -> String {
    let common = ":root { color-scheme: light dark } body { margin: 1em; color: #111; background: #fff } \
        @media (prefers-color-scheme: dark) { body { color: #eee; background: #111 } }";
    format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Page</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         {head}<style>{style} {common}</style></head><body>{body}</body></html>"
    )
}

/// Content security policy of a page that needs nothing besides itself.
const POLICY: &str = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
    style-src 'unsafe-inline'; img-src data:\">";

#[test]
#[ignore = "long"]
fn every_kind_of_page_defect_is_detected() {
    xtask::require!(chromium);
    let long = "word ".repeat(60);
    let bad: &[(&str, &str, &str, &[&str])] = &[
        ("console", "", "<p>x</p><script>console.log('hello there')</script>", &["hello there"]),
        (
            "exception",
            "",
            "<p>x</p><script>undefinedFunction()</script>",
            &["undefinedFunction is not defined"],
        ),
        (
            "image",
            "",
            "<p>x</p><img src='file:///nowhere/at-all.png' alt=''>",
            &["asks for file:///nowhere/at-all.png"],
        ),
        (
            "policy",
            "",
            "<p>x</p><img src='http://127.0.0.1:9/x.png' alt=''>",
            &["violates the following Content Security Policy"],
        ),
        (
            "style",
            "@import url('file:///nowhere/style.css');",
            "<p>x</p>",
            &["asks for file:///nowhere/style.css"],
        ),
        (
            "cut",
            "p { width: 9em; overflow: hidden; white-space: nowrap }",
            "<p>A text that is far too long.</p>",
            &["cut off at the side"],
        ),
        (
            "dots",
            "p { width: 9em; overflow: hidden; white-space: nowrap; text-overflow: ellipsis }",
            "<p>A text that is far too long.</p>",
            &["cut off at the side"],
        ),
        ("low", "p { height: 1em; overflow: hidden }", &format!("<p>{long}</p>"), &["cut off at the bottom"]),
        (
            "left",
            "p { position: absolute; left: -3em }",
            "<p>Out of sight.</p>",
            &["lies outside of the page"],
        ),
        (
            "hiding",
            "html { overflow-x: hidden } p { white-space: nowrap }",
            &format!("<p>{long}</p>"),
            &["lies outside of the page"],
        ),
        (
            "grey",
            "p { color: #999 }",
            "<p>Hardly legible.</p>",
            &["light: `Hardly legible.` of <p> has a contrast of 2.85"],
        ),
        ("faint", "p { opacity: 0.4 }", "<p>Hardly there.</p>", &["has a contrast of"]),
        (
            "night",
            "p { color: #003 }",
            "<p>Dark on dark.</p>",
            &["dark: `Dark on dark.` of <p> has a contrast of"],
        ),
        (
            "gradient",
            "p { background: linear-gradient(90deg, #fff, #222) }",
            "<p>Half of it.</p>",
            &["has a contrast of"],
        ),
        (
            "wide",
            "div { width: 1200px }",
            "<div>Wide.</div>",
            &["960 wide, light: the page scrolls sideways", "390 wide, dark: the page scrolls sideways"],
        ),
        (
            "drawing",
            "",
            "<svg width='200' height='50'><text x='150' y='30'>Beyond the edge</text></svg>",
            &["`Beyond the edge` lies outside of its drawing"],
        ),
        (
            "bar",
            "",
            "<svg width='200' height='50'><rect width='200' height='50' fill='#333'/><text x='10' y='30' fill='#000'>On a bar</text></svg>",
            &["light: `On a bar` of <text> has a contrast of 1.66"],
        ),
        (
            "labels",
            "text { fill: currentColor }",
            "<svg width='200' height='50'><text x='10' y='30'>12:00</text><text x='30' y='32'>13:00</text></svg>",
            &["`12:00` and `13:00` lie over each other"],
        ),
        (
            "paper",
            "div { overflow-x: auto; white-space: nowrap }",
            &format!("<div>{long}</div>"),
            &["on paper", "cut off at the side"],
        ),
        (
            "poster",
            "@media print { div { width: 1200px } }",
            "<div>A poster.</div>",
            &["on paper: the page scrolls sideways"],
        ),
        (
            "day",
            "body { background: #111 !important; color: #eee !important }",
            "<p>Always night.</p>",
            &["dark is no darker than light"],
        ),
        (
            "section",
            "#there { display: none }",
            "<p>x</p><div id='there'>y</div>",
            &["section #there is not visible", "there is no section #gone"],
        ),
        ("link", "", "<p><a href='#nowhere' style='color: inherit'>on</a></p>", &["leads to #nowhere"]),
        ("empty", "", "", &["nothing can be read"]),
    ];
    let home = scratch(1 << 20);
    let mut browser = Browser::start();
    for (name, style, body, expected) in bad {
        let file = home.path().join(format!("{name} 100%?.html"));
        let head = if *name == "policy" { POLICY } else { "" };
        fs::write(&file, page(head, style, body)).unwrap();
        let sections: &[&str] = if *name == "section" { &["there", "gone"] } else { &[] };
        let found = complaints_in(&mut browser, &file, None, sections, &WIDTHS).join("\n");
        for words in *expected {
            assert!(found.contains(words), "{name}: `{words}` is not among\n{found}");
        }
        // Each page is spoilt in one way.
        let ways =
            ["console", "asks", "cut off", "contrast", "sideways", "drawing", "each other", "no darker"];
        let text = ways.iter().filter(|way| found.contains(*way)).count();
        assert!(text <= 2, "{name}: so many complaints\n{found}");
    }
}

#[test]
fn correct_page_has_no_complaints() {
    xtask::require!(chromium);
    let wide = "word ".repeat(60);
    // The page has an area that scrolls by itself, a folded part, a text for screen readers, large text, and a label on
    // a bar. It runs and fetches nothing, and its own rules do not hinder the inspection.
    let body = format!(
        "<h1 id='top'>Large</h1><div class='scroller'>{wide}</div><p class='ears'>For ears.</p>\
         <details id='more'><summary>More</summary><p>Folded away. <a href='#top'>Up</a></p></details>\
         <svg viewBox='0 0 200 50' role='img'><title>Not shown, and however long a title may be</title>\
         <rect width='200' height='50' fill='#003366'/><text x='10' y='30' fill='#fff'>A label</text></svg>\
         <img alt='' src='data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA='>"
    );
    let style = "h1 { color: #888 } a { color: inherit } .scroller { overflow-x: auto; white-space: nowrap } \
        @media print { .scroller { white-space: normal } } @media (prefers-color-scheme: dark) { h1 { color: #777 } } \
        svg { max-width: 100% } .ears { position: absolute; width: 1px; height: 1px; overflow: hidden; white-space: nowrap; color: #999 }";
    let home = scratch(1 << 20);
    let file = home.path().join("good.html");
    fs::write(&file, page(POLICY, style, &body)).unwrap();
    assert_presentable(&file, "good", &["top", "more"]);
}

#[test]
fn browser_is_killed_when_its_test_fails() {
    xtask::require!(chromium);
    let seen = std::sync::Mutex::new((0, std::path::PathBuf::new()));
    let failed = std::panic::catch_unwind(|| {
        let mut browser = Browser::start();
        assert_eq!(browser.page().evaluate("6 * 7"), 42);
        *seen.lock().unwrap() = (browser.id(), browser.profile().to_owned());
        std::panic::resume_unwind(Box::new("a failed assertion"));
    });
    let (pid, profile) = seen.into_inner().unwrap();
    assert!(failed.is_err() && pid > 0 && profile.is_absolute() && !profile.exists());
    let its = |entry: fs::DirEntry| {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains(&*profile.to_string_lossy())
    };
    // Everything that was started for the browser is killed with it, and gone as soon as the kernel has come to it.
    let is_gone = (0..12_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        !fs::read_dir("/proc").unwrap().flatten().any(its)
    });
    assert!(is_gone, "a process of the browser is still there");
    assert!(!Path::new(&format!("/proc/{pid}/exe")).exists());
}

#[test]
fn bon_csv2html_page_is_presentable() {
    xtask::require!(chromium);
    let home = scratch(1 << 20);
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../family/tests/data");
    // Results of three versions, in one page.
    let files =
        ["bonnie++-1.03e_x2.csv", "bonnie++-2.00a_x2_header.csv", "bonnie++-2.00a_s1G_r512_n4.stdout"];
    let lines: String = files.iter().map(|name| fs::read_to_string(data.join(name)).unwrap()).collect();
    let (input, file) = (home.path().join("all.csv"), home.path().join("page.html"));
    fs::write(&input, lines).unwrap();
    let ran = skye().arg("bon_csv2html").arg(&input).run().did_not_panic().exits(0);
    fs::write(&file, &ran.stdout).unwrap();
    assert_presentable(&file, "bon_csv2html", &[]);
}

#[test]
fn zcav_drawing_is_presentable() {
    xtask::require!(root, fuse, chromium);
    let home = scratch(1 << 20);
    // The rig is slow enough that each part has a rate.
    let rig = Rig::start(&rig_program(), Spec::fuse().service_us(4000).file_bytes(24 << 20)).unwrap();
    let drawing = home.path().join("drawing.svg");
    let program = skye().words("zcav -b 2 --svg").arg(&drawing);
    program.arg(rig.path().join("file")).run().did_not_panic().exits(0);
    assert!(fs::read_to_string(&drawing).unwrap().contains("MiB/s"), "nothing was drawn");
    // The drawing has a width of its own: it is a picture, not a page that is laid out for a phone.
    let found = complaints(&drawing, "zcav", &[], &WIDTHS[..1]);
    assert!(found.is_empty(), "{}", found.join("\n"));
    rig.finish().unwrap();
}
