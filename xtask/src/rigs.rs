//! `cargo xtask rigs`: which rigs there are, and undoing those that were killed.

use anyhow::Result;

use crate::Usage;

/// Runs the command; the answer is whether nothing is left that should have gone.
///
/// # Errors
/// Where the command line is not understood.
pub fn command(arguments: &[String]) -> Result<bool> {
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--list"] => {
            list();
            Ok(true)
        }
        ["--clean"] => Ok(clean()),
        _ => Err(Usage(String::from("say `rigs --list` or `rigs --clean`")).into()),
    }
}

fn list() {
    let journals = rig::list();
    for journal in &journals {
        let state = if rig::is_live(journal) { "in use" } else { "killed: rigs --clean undoes it" };
        println!("{} ({state})", journal.display());
        for step in rig::steps(journal) {
            println!("  {step}");
        }
    }
    if journals.is_empty() {
        println!("no rigs");
    }
}

fn clean() -> bool {
    let cleaned = rig::clean();
    for one in &cleaned {
        println!("{}", one.journal.display());
        for undone in &one.undone {
            println!("  undone: {undone}");
        }
        for left in &one.left {
            println!("  left:   {left}");
        }
    }
    if cleaned.is_empty() {
        println!("nothing to undo");
    }
    cleaned.iter().all(|one| one.left.is_empty())
}
