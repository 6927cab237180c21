//! Copies of the program on hosts that have none: the shells there, their directories, and kills while it is sent.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use xtask::capability::OTHER_USER;

use super::fleet::eventually;
use crate::support::mounts::Tmpfs;
use crate::support::program::{Skye, assert_nothing_left, skye};
use crate::support::scratch;

/// Room for a copy of the program.
const ROOM: u64 = 256 << 20;

/// A host that a program named ssh reaches.
struct Host {
    /// Directory of the programs, with the shell of the host below `there`.
    bin: TempDir,
    /// `$XDG_RUNTIME_DIR` on the host.
    runtime: TempDir,
    directory: TempDir,
}

impl Host {
    /// Makes a host with a shell, which is `busybox` for a host that has no other program.
    fn new(shell: &str) -> Self {
        let runtime = scratch(ROOM);
        // Elsewhere, the umask may let a group write.
        fs::set_permissions(runtime.path(), fs::Permissions::from_mode(0o700)).unwrap();
        Self::with(shell, runtime)
    }

    /// Makes a host with another `$XDG_RUNTIME_DIR`.
    fn with(shell: &str, runtime: TempDir) -> Self {
        let host = Self { bin: scratch(1 << 20), runtime, directory: scratch(ROOM) };
        let there = host.bin.path().join("there");
        fs::create_dir(&there).unwrap();
        let path = match shell {
            "busybox" => {
                let install = Command::new("busybox").arg("--install").arg("-s").arg(&there).status();
                assert!(install.unwrap().success());
                there.display().to_string()
            }
            _ => {
                symlink(format!("/usr/bin/{shell}"), there.join("sh")).unwrap();
                format!("{}:/usr/bin:/bin", there.display())
            }
        };
        // The shell keeps the number of this process.
        let ssh = format!(
            "#!/bin/sh\nfor line; do :; done\necho $$ >{at}/pid.new\nmv {at}/pid.new {at}/pid\n\
             exec env -i PATH={path} XDG_RUNTIME_DIR={} sh -c \"$line\"\n",
            host.runtime.path().display(),
            at = host.bin.path().display(),
        );
        let file = host.bin.path().join("ssh");
        fs::write(&file, ssh).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        host
    }

    fn run(&self, words: &str) -> Skye {
        let path = format!("{}:{}", self.bin.path().display(), std::env::var("PATH").unwrap());
        let common =
            "--size 1m --allow low-space,shared-directory,busy --hosts ada --remote-skye no-such-skye";
        let run = skye().arg("run").arg(self.directory.path()).words(common).env("PATH", path);
        run.words("--cache warm --test read:rnd4k:buffered").words(words)
    }

    /// Returns the number of the process that ssh has started, once there is one.
    fn pid(&self) -> Option<Pid> {
        let text = fs::read_to_string(self.bin.path().join("pid")).ok()?;
        Pid::from_raw(text.trim().parse().ok()?)
    }

    /// Returns the names in the directory of the copy.
    fn names(&self) -> Vec<PathBuf> {
        fs::read_dir(self.runtime.path()).unwrap().flatten().map(|entry| entry.path()).collect()
    }

    /// Runs a test, and returns the path that the program on the host was started from.
    fn program(&self) -> String {
        let mut running = self.run("--time 1").spawn();
        let link = || {
            let pid = self.pid()?.as_raw_nonzero();
            let program = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
            program.to_str().filter(|path| path.contains("skye-sent.")).map(str::to_owned)
        };
        let mut program = None;
        running.wait_until(|| {
            program = link();
            program.is_some()
        });
        running.wait().did_not_panic().exits(0);
        assert_nothing_left(self.directory.path());
        program.expect("the program has no name")
    }
}

#[test]
fn uploaded_copy_is_unlinked_in_every_shell() {
    for shell in ["dash", "bash", "busybox"] {
        if Command::new(shell).args(["-c", ":"]).stderr(Stdio::null()).status().is_err() {
            println!("there is no {shell}");
            continue;
        }
        let host = Host::new(shell);
        let program = host.program();
        assert!(Path::new(&program).starts_with(host.runtime.path()), "{shell}: {program}");
        assert!(program.ends_with(" (deleted)"), "{shell}: {program}");
        assert_eq!(host.names(), Vec::<PathBuf>::new(), "{shell}");
    }
}

#[test]
fn skye_copy_is_not_stored_in_insecure_directories() {
    xtask::require!(root);
    let open = |host: &Host, mode| {
        fs::set_permissions(host.runtime.path(), fs::Permissions::from_mode(mode)).unwrap();
    };
    let give = |host: &Host| {
        std::os::unix::fs::chown(host.runtime.path(), Some(OTHER_USER), Some(OTHER_USER)).unwrap();
    };
    for (mode, is_own, is_taken) in
        [(0o700, true, true), (0o1777, true, true), (0o777, true, false), (0o700, false, false)]
    {
        let host = Host::new("dash");
        open(&host, mode);
        if !is_own {
            give(&host);
        }
        let program = host.program();
        let is_there = Path::new(&program).starts_with(host.runtime.path());
        assert_eq!(is_there, is_taken, "{mode:o}, own: {is_own}: {program}");
    }
}

#[test]
fn skye_copy_is_not_stored_in_full_directories() {
    xtask::require!(root);
    for shell in ["dash", "bash", "busybox"] {
        if Command::new(shell).args(["-c", ":"]).stderr(Stdio::null()).status().is_err() {
            println!("there is no {shell}");
            continue;
        }
        let small = Tmpfs::new("1m", None);
        let host = Host::with(shell, tempfile::tempdir_in(small.path()).unwrap());
        let program = host.program();
        assert!(!Path::new(&program).starts_with(small.path()), "{shell}: {program}");
        assert_eq!(host.names(), Vec::<PathBuf>::new(), "{shell}");
    }
}

#[test]
fn killed_upload_leaves_at_most_one_empty_file() {
    for turn in 0..xtask::sized(8, 100) {
        let host = Host::new("dash");
        let mut running = host.run("--time 0.3").spawn();
        running.wait_until(|| host.pid().is_some());
        thread::sleep(Duration::from_millis(fastrand::u64(..150)));
        if let Some(pid) = host.pid() {
            // It may have ended.
            let _ = kill_process(pid, Signal::KILL);
        }
        eventually("the end of the run", || running.has_ended());
        let ran = running.wait().did_not_panic();
        let names = host.names();
        assert!(names.len() <= 1, "turn {turn}: {names:?}");
        for name in names {
            assert_eq!(fs::metadata(&name).unwrap().len(), 0, "turn {turn}: {ran}");
            // Of all files, the command takes those that no upload may still need.
            let then = std::time::SystemTime::now() - Duration::from_secs(60);
            fs::File::options().write(true).open(&name).unwrap().set_modified(then).unwrap();
            let clean = skye().arg("clean").arg(host.directory.path());
            clean.env("XDG_RUNTIME_DIR", host.runtime.path()).run().did_not_panic();
            assert!(!name.exists(), "turn {turn}");
        }
    }
}

#[test]
fn clean_removes_empty_files_of_killed_uploads() {
    let (home, directory) = (scratch(1 << 20), scratch(1 << 20));
    let left = home.path().join("skye-sent.abc123");
    fs::write(&left, "").unwrap();
    fs::set_permissions(&left, fs::Permissions::from_mode(0o700)).unwrap();
    let clean =
        || skye().arg("clean").arg(directory.path()).env("XDG_RUNTIME_DIR", home.path()).run().exits(0);
    clean();
    assert!(left.exists(), "it is as young as an upload that goes on");
    let then = std::time::SystemTime::now() - Duration::from_secs(60);
    fs::File::options().write(true).open(&left).unwrap().set_modified(then).unwrap();
    clean().output_contains(&["removed", "skye-sent.abc123"]);
    assert!(!left.exists());
}
