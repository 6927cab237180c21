//! Signatures on block devices, as `blkid` of util-linux finds them. It reads the device and writes nothing.

use std::io::{Error, ErrorKind};
use std::process::{Command, Output, Stdio};

use model::holding::{Contents, Holding};

/// Names under which the program is looked for: a user's path often leaves out these directories.
const PROGRAMS: &[&str] = &["blkid", "/usr/sbin/blkid", "/sbin/blkid"];
/// Exit code if there is no signature, or if the device cannot be opened (blkid(8)).
const NOTHING: i32 = 2;
/// Exit code if several signatures contradict each other.
const AMBIVALENT: i32 = 8;

/// Looks at a device and at all parts of it.
pub fn look(mut holding: Holding) -> Holding {
    for part in &mut holding.parts {
        // A slash in the name of a device is an exclamation mark in sysfs.
        let output = probe(&format!("/dev/{}", part.name.replace('!', "/")));
        part.contents = match output {
            Ok(output) => contents(
                output.status.code(),
                &String::from_utf8_lossy(&output.stdout),
                &String::from_utf8_lossy(&output.stderr),
            ),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Contents::Unreadable("the program blkid of util-linux is not installed".into())
            }
            Err(error) => Contents::Unreadable(format!("blkid: {error}")),
        };
    }
    holding
}

fn probe(path: &str) -> Result<Output, Error> {
    let run = |program: &&str| {
        Command::new(program)
            .args(["--probe", "--output", "export", path])
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output()
    };
    let mut found = Err(ErrorKind::NotFound.into());
    for program in PROGRAMS {
        found = run(program);
        if !found.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            break;
        }
    }
    found
}

/// Returns the signature that an answer of blkid names.
fn contents(code: Option<i32>, stdout: &str, stderr: &str) -> Contents {
    let value = |key: &str| {
        let mut pairs = stdout.lines().filter_map(|line| line.split_once('='));
        pairs.find(|(name, value)| *name == key && !value.is_empty()).map(|(_, value)| value.to_owned())
    };
    let complaint = stderr.trim();
    match code {
        Some(0) => match (value("TYPE"), value("PTTYPE")) {
            (Some(kind), _) => {
                let label = value("LABEL").map_or(String::new(), |label| format!(" \"{label}\""));
                Contents::Signature(format!("{kind}{label}"))
            }
            (None, Some(table)) => Contents::Signature(format!("{table} partition table")),
            // A partition without a signature has an entry in a table all the same.
            (None, None) => Contents::Nothing,
        },
        Some(NOTHING) if complaint.is_empty() => Contents::Nothing,
        Some(AMBIVALENT) => Contents::Signature("several signatures that contradict each other".into()),
        _ if complaint.is_empty() => Contents::Unreadable("blkid failed without a reason".into()),
        _ => Contents::Unreadable(complaint.lines().next().unwrap_or_default().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_understood() {
        let known = |text: &str| Contents::Signature(text.into());
        let ext4 =
            "DEVNAME=/dev/sda1\nLABEL=data\nUUID=0-1\nTYPE=ext4\nUSAGE=filesystem\nPART_ENTRY_NUMBER=1\n";
        assert_eq!(contents(Some(0), ext4, ""), known("ext4 \"data\""));
        assert_eq!(contents(Some(0), "DEVNAME=/dev/sda\nPTTYPE=gpt\n", ""), known("gpt partition table"));
        assert_eq!(contents(Some(0), "TYPE=swap\nLABEL=\n", ""), known("swap"));
        assert_eq!(contents(Some(0), "PART_ENTRY_NUMBER=1\n", ""), Contents::Nothing);
        assert_eq!(contents(Some(2), "", ""), Contents::Nothing);
        assert!(matches!(contents(Some(8), "", "ambivalent"), Contents::Signature(_)));
        let refused = contents(Some(2), "", "blkid: error: /dev/sda: Permission denied\n");
        assert_eq!(refused, Contents::Unreadable("blkid: error: /dev/sda: Permission denied".into()));
        assert!(matches!(contents(None, "", ""), Contents::Unreadable(_)));
    }
}
