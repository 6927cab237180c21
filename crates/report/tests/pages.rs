//! Output for documents of real runs. The pages show parts of these snapshots.
#![allow(missing_docs, clippy::unwrap_used)]

use std::path::Path;

use model::Run;
use model::json::FromJson;
use report::text::{Detail, Style, saved, screen, why};

fn document(name: &str) -> Run {
    let path = format!("{}/tests/documents/{name}.json", env!("CARGO_MANIFEST_DIR"));
    Run::from_json(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn on_screen(name: &str) -> String {
    let (run, style) = (document(name), Style { has_unicode: true, width: 100 });
    let parts = [screen(&run, Detail::Screen, &style), saved(&run, "1129-harbor", Path::new(""), &style)];
    anstream::adapter::strip_str(&parts.join("\n\n")).to_string()
}

#[test]
fn default_run_of_a_virtual_disk() {
    insta::assert_snapshot!(on_screen("default"));
}

#[test]
fn evidence_of_a_random_read_test() {
    let run = document("default");
    let row =
        run.phases.iter().position(|phase| phase.name == "read" && phase.label.contains("q32")).unwrap();
    let text = why(&run, &[row], &Style { has_unicode: true, width: 100 });
    insta::assert_snapshot!(anstream::adapter::strip_str(&text).to_string());
}

#[test]
fn mix_of_a_mail_server() {
    insta::assert_snapshot!(on_screen("mix"));
}

#[test]
fn replay_of_two_clients() {
    insta::assert_snapshot!(on_screen("replay"));
}
