//! Pages as people see them: opened in a real browser, in two widths, in light and dark colours, and on paper. Each is
//! searched for flaws.
//!
//! [`assert_presentable`] is all that a test of a page needs. Pictures of the pages are kept as artefacts: in
//! `$SKYE_TEST_ARTEFACTS`, or else below the target directory.

mod devtools;
mod pages;
mod works;

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use serde_json::{Value, json};

use devtools::{Browser, Page};

/// Environment variable that holds the directory for pictures of pages.
const ARTEFACTS_VARIABLE: &str = "SKYE_TEST_ARTEFACTS";
/// Script that inspects a page from within.
const INSPECT_SCRIPT: &str = include_str!("page.js");
/// Widths of a page: a window that is not large, and a phone.
pub const WIDTHS: [u32; 2] = [960, 390];
/// Height of a window before the page's own is known.
const HEIGHT: u32 = 800;
/// Largest height of a picture. Beyond 16,384 pixels, browsers leave parts of it white.
const HEIGHT_MAX: u64 = 16_000;
/// Widths of A4 without margins of 1 cm, upright and across, in pixels (96 to an inch).
const PAPER: [u32; 2] = [718, 1047];
/// Expression that is true if a page's styles set landscape paper.
const IS_LANDSCAPE: &str = "(() => {
    const across = (rules) => [...rules].some((rule) => rule instanceof CSSPageRule
        ? /landscape/.test(rule.cssText) : rule.cssRules && across(rule.cssRules));
    return [...document.styleSheets].some((sheet) => across(sheet.cssRules));
})()";

/// Opens a page and asserts that nothing is wrong with it. `name` is that of the pictures. The checks are:
///
/// - There is no message on the console, and no request for anything else.
/// - All `sections` (ids) exist and are visible.
/// - In each of two widths, nothing is cut off, crosses the edge of its drawing, or makes the page scroll sideways.
/// - In light and in dark colours, all text has enough contrast, and both schemes differ.
/// - On paper, nothing is cut off either.
///
/// # Panics
/// Something is wrong; the message has all complaints.
#[track_caller]
pub fn assert_presentable(page: &Path, name: &str, sections: &[&str]) {
    let complaints = complaints(page, name, sections, &WIDTHS);
    assert!(complaints.is_empty(), "{}:\n{}", page.display(), complaints.join("\n"));
}

/// Returns the flaws of a page, each with the way of looking that shows it.
pub fn complaints(file: &Path, name: &str, sections: &[&str], widths: &[u32]) -> Vec<String> {
    complaints_in(&mut Browser::start(), file, Some(name), sections, widths)
}

fn complaints_in(
    browser: &mut Browser,
    file: &Path,
    name: Option<&str>,
    sections: &[&str],
    widths: &[u32],
) -> Vec<String> {
    let file = file.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let url = address(&file);
    let mut page = browser.page();
    page.open(&url);
    // Folded parts are inspected, too.
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })");
    let mut found = Vec::new();
    for &width in widths {
        let mut backgrounds = Vec::new();
        for scheme in ["light", "dark"] {
            let view = View { width, media: "screen", scheme };
            let seen = view.at(&mut page, sections);
            found.extend(seen.complaints.iter().map(|text| format!("{width} wide, {scheme}: {text}")));
            backgrounds.push(seen.brightness);
            keep(&mut page, name, &format!("{width}-{scheme}"));
        }
        if backgrounds[0] <= backgrounds[1] {
            found.push(format!("{width} wide: dark is no darker than light: {backgrounds:?}"));
        }
    }
    // A foreign style sheet cannot be read, and has been reported.
    let across = page.try_evaluate(IS_LANDSCAPE) == Ok(Value::Bool(true));
    let paper = View { width: PAPER[usize::from(across)], media: "print", scheme: "light" };
    found.extend(paper.at(&mut page, &[]).complaints.iter().map(|text| format!("on paper: {text}")));
    keep(&mut page, name, "paper");
    found.extend(messages(&page));
    found.extend(requests(&page, &url));
    found
}

/// Returns the address of a file. Characters with another meaning in an address are escaped.
fn address(file: &Path) -> String {
    let escaped = file.as_os_str().as_encoded_bytes().iter().map(|&byte| match byte {
        b'/' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    format!("file://{}", escaped.collect::<String>())
}

/// Returns messages on the console, exceptions, and messages of the browser itself.
fn messages(page: &Page) -> Vec<String> {
    let text = page.events().filter_map(|event| {
        let parameters = &event["params"];
        match event["method"].as_str()? {
            "Runtime.consoleAPICalled" => Some(format!("the console says {}", parameters["args"])),
            "Runtime.exceptionThrown" => {
                Some(format!("exception: {}", parameters["exceptionDetails"]["exception"]["description"]))
            }
            "Log.entryAdded" => Some(format!("the browser says {}", parameters["entry"]["text"])),
            _ => None,
        }
    });
    text.collect()
}

/// Returns requests for anything but the page itself, and the data that it holds.
fn requests(page: &Page, own_url: &str) -> Vec<String> {
    let sent = page.events().filter(|event| event["method"] == "Network.requestWillBeSent");
    let urls = sent.map(|event| event["params"]["request"]["url"].as_str().unwrap_or("?"));
    let outside = urls.filter(|url| {
        let bare = url.split('#').next().unwrap_or_default();
        bare != own_url && !url.starts_with("data:")
    });
    outside.map(|url| format!("asks for {url}")).collect()
}

/// One way of looking at a page.
struct View<'a> {
    width: u32,
    media: &'a str,
    scheme: &'a str,
}

/// Result of the inspection of a page.
struct Inspection {
    complaints: Vec<String>,
    /// Brightness of the background: the sum of its three colours, each 0 to 255.
    brightness: f64,
}

impl View<'_> {
    fn at(&self, page: &mut Page, sections: &[&str]) -> Inspection {
        let features = json!([{"name": "prefers-color-scheme", "value": self.scheme}]);
        page.call("Emulation.setEmulatedMedia", json!({"media": self.media, "features": features}));
        let options = json!({
            "width": self.width,
            "sections": sections,
            "print": self.media == "print",
            // Paper is white, and the printer decides the colours on it.
            "contrast": self.media != "print",
            "dark": self.scheme == "dark",
        });
        let expression = format!("({INSPECT_SCRIPT})({options})");
        self.resize(page, HEIGHT);
        // A page that is higher than the window gets a window of its own height, so that all of it can be seen.
        let tall = page.evaluate("Math.ceil(document.documentElement.scrollHeight)").as_u64().unwrap_or(0);
        self.resize(page, tall.clamp(HEIGHT.into(), HEIGHT_MAX) as u32);
        // The layout is new once it has been painted.
        page.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))",
        );
        let seen = page.evaluate(&expression);
        let texts = seen["complaints"].as_array().expect("complaints").iter();
        let background = seen["background"].as_array().expect("a background").iter();
        Inspection {
            complaints: texts.map(|text| text.as_str().unwrap_or_default().to_owned()).collect(),
            brightness: background.filter_map(Value::as_f64).sum(),
        }
    }

    fn resize(&self, page: &mut Page, height: u32) {
        let metrics = json!({"width": self.width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        page.call("Emulation.setDeviceMetricsOverride", metrics);
    }
}

/// Returns the directory of pictures, which is made if need be.
fn artefacts() -> PathBuf {
    let directory = std::env::var_os(ARTEFACTS_VARIABLE)
        .map_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages"), PathBuf::from);
    fs::create_dir_all(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    directory
}

/// Keeps a picture of a whole page, if the page has a name.
fn keep(page: &mut Page, name: Option<&str>, how: &str) {
    let Some(name) = name else { return };
    let path = artefacts().join(format!("{name}-{how}.png"));
    let taken = page.call("Page.captureScreenshot", json!({"format": "png", "captureBeyondViewport": true}));
    let bytes = base64::engine::general_purpose::STANDARD.decode(taken["data"].as_str().expect("a picture"));
    fs::write(&path, bytes.expect("base64")).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    eprintln!("kept {}", path.display());
}
