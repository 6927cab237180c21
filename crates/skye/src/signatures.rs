//! Signatures on block devices, found by the programs of util-linux with libblkid. The programs only read.
//!
//! The programs are used because mounts, LVM and installers rely on their library. No crate knows as many formats. The
//! program `blkid` reports one signature, also one without a fixed magic number. The program `wipefs` lists all with a
//! magic number, such as the rest of an array below a file system. Both check a device that is to be erased.

use std::collections::BTreeSet;
use std::io::{Error, ErrorKind};
use std::os::fd::OwnedFd;
use std::process::{Command, Output, Stdio};

use model::holding::{Contents, DeviceUsage};

/// Directories of the programs. A path that the user sets has no say in what may be erased.
const DIRECTORIES: &[&str] = &["/usr/sbin/", "/sbin/", "/usr/bin/", "/bin/", "/run/current-system/sw/bin/"];
/// Path of the standard input, as which a program gets a device that is open already.
const STDIN: &str = "/proc/self/fd/0";
/// Part of a GPT that guards it from older programs; it goes with the GPT.
const PROTECTIVE_MBR: &str = "PMBR";
/// Kinds of signatures that blkid can be restricted to (blkid(8), `--usages`).
const USAGES: [&str; 4] = ["filesystem", "raid", "crypto", "other"];
/// Exit code if there is no signature, or if the device cannot be opened (blkid(8)).
const NO_SIGNATURE_CODE: i32 = 2;
/// Exit code if several signatures contradict each other.
const AMBIVALENT: i32 = 8;

/// Probes all parts of a device, itself included.
pub fn add_signatures(mut holding: DeviceUsage) -> DeviceUsage {
    for part in &mut holding.parts {
        // A slash in the name of a device is an exclamation mark in sysfs.
        let output = probe(&format!("/dev/{}", part.name.replace('!', "/")), Stdio::null);
        part.contents = match output {
            Ok(output) => contents(
                output.status.code(),
                &String::from_utf8_lossy(&output.stdout),
                &String::from_utf8_lossy(&output.stderr),
            ),
            Err(error) => Contents::Unreadable(not_run("blkid", &error)),
        };
    }
    holding
}

/// Returns the names of all signatures on an open device, sorted.
///
/// # Errors
/// A program is missing or failed, so the signatures are unknown.
pub fn all(device: &OwnedFd) -> Result<Vec<String>, String> {
    let copy = || device.try_clone().map_or_else(|_| Stdio::null(), Stdio::from);
    let listed = run("wipefs", &["--no-act", "--parsable", STDIN], copy);
    let listed = listed.map_err(|error| not_run("wipefs", &error))?;
    if !listed.status.success() {
        let complaint = String::from_utf8_lossy(&listed.stderr).trim().to_owned();
        return Err(format!("wipefs: {complaint}"));
    }
    let found = probe(STDIN, copy).map_err(|error| not_run("blkid", &error))?;
    let (stdout, stderr) = (String::from_utf8_lossy(&found.stdout), String::from_utf8_lossy(&found.stderr));
    names(&String::from_utf8_lossy(&listed.stdout), found.status.code(), &stdout, &stderr)
}

/// Returns the sorted names of signatures in a part of an open device, where the part itself is no device. Only blkid
/// can read a part. It reports one signature at a time, so it runs once for each usage.
///
/// # Errors
/// The program is missing or failed, or several signatures contradict each other.
pub fn within(device: &OwnedFd, offset_bytes: u64, size_bytes: u64) -> Result<Vec<String>, String> {
    let copy = || device.try_clone().map_or_else(|_| Stdio::null(), Stdio::from);
    let [offset, size] = [offset_bytes, size_bytes].map(|bytes| bytes.to_string());
    let mut all = BTreeSet::new();
    for usage in USAGES {
        let probe = ["--probe", "--output", "export", "--usages", usage];
        let options = [&probe[..], &["--offset", &offset, "--size", &size, STDIN]].concat();
        let found = run("blkid", &options, copy).map_err(|error| not_run("blkid", &error))?;
        let [stdout, stderr] = [&found.stdout, &found.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        all.extend(names("", found.status.code(), &stdout, &stderr)?);
    }
    Ok(all.into_iter().collect())
}

/// Returns the names that wipefs and blkid report.
fn names(listed: &str, code: Option<i32>, stdout: &str, stderr: &str) -> Result<Vec<String>, String> {
    let lines = listed.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    // Labels come encoded, and the name is last.
    let mut found: Vec<_> = lines.filter_map(|line| Some(line.rsplit(',').next()?.to_owned())).collect();
    let probed = contents(code, stdout, stderr);
    match probed {
        Contents::Unreadable(why) => return Err(why),
        // The user can name that, too.
        Contents::Signature(_) if code == Some(AMBIVALENT) && found.is_empty() => {
            found.push("ambivalent".into())
        }
        _ => {}
    }
    found.extend(["TYPE", "PTTYPE"].iter().filter_map(|key| value(stdout, key)));
    if found.iter().any(|name| name == "gpt") {
        found.retain(|name| name != PROTECTIVE_MBR);
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn probe(path: &str, stdin: impl Fn() -> Stdio) -> Result<Output, Error> {
    run("blkid", &["--probe", "--output", "export", path], stdin)
}

fn not_run(name: &str, error: &Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => format!("the program {name} of util-linux is not installed"),
        _ => format!("{name}: {error}"),
    }
}

fn run(name: &str, arguments: &[&str], stdin: impl Fn() -> Stdio) -> Result<Output, Error> {
    let run = |directory: &&str| {
        let mut command = Command::new(format!("{directory}{name}"));
        command.args(arguments).env_clear().env("LC_ALL", "C").stdin(stdin()).output()
    };
    let mut found = Err(ErrorKind::NotFound.into());
    for directory in DIRECTORIES {
        found = run(directory);
        if !found.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            break;
        }
    }
    found
}

fn value(export: &str, key: &str) -> Option<String> {
    let mut pairs = export.lines().filter_map(|line| line.split_once('='));
    pairs.find(|(name, value)| *name == key && !value.is_empty()).map(|(_, value)| value.to_owned())
}

/// Returns the signature that an answer of blkid names.
fn contents(code: Option<i32>, stdout: &str, stderr: &str) -> Contents {
    let value = |key: &str| value(stdout, key);
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
        Some(NO_SIGNATURE_CODE) if complaint.is_empty() => Contents::Nothing,
        Some(AMBIVALENT) => Contents::Signature("several signatures that contradict each other".into()),
        _ if complaint.is_empty() => Contents::Unreadable("blkid failed without an error message".into()),
        _ => Contents::Unreadable(complaint.lines().next().unwrap_or_default().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blkid_output_is_parsed() {
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

    #[test]
    fn all_signatures_are_listed_except_pmbr_of_gpt() {
        let of = |listed: &str, code: i32, stdout: &str| names(listed, Some(code), stdout, "");
        let words = |names: &[&str]| Ok(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let gpt = "# offset,uuid,label,type\n0x200,,,gpt\n0x3ffe00,,,gpt\n0x1fe,,,PMBR\n";
        assert_eq!(of(gpt, 0, "PTTYPE=gpt\n"), words(&["gpt"]));
        assert_eq!(of("0x1fe,,,PMBR\n", 0, "PTTYPE=PMBR\n"), words(&["PMBR"]));
        let rest = "0x438,0-1,my\\x2clab,ext4\n0x1018,,,LVM2_member\n";
        assert_eq!(of(rest, AMBIVALENT, ""), words(&["LVM2_member", "ext4"]));
        // A signature without a magic number has no line there.
        assert_eq!(of("", 0, "TYPE=vfat\nPTTYPE=dos\n"), words(&["dos", "vfat"]));
        assert_eq!(of("", NO_SIGNATURE_CODE, ""), words(&[]));
        assert_eq!(of("", AMBIVALENT, ""), words(&["ambivalent"]));
        assert!(names("", Some(NO_SIGNATURE_CODE), "", "blkid: error: cannot read").is_err());
    }
}
