//! Fresh root file systems, in which packages are tried.
//!
//! Each command has separate mounts and processes: the kernel removes them with its last process, also after an error
//! or a kill. The directory of a root is removed on drop.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::tools::{Tools, run};

/// Directory in a root that is no part of it: tests write there.
pub(super) const DATA: &str = "/data";
/// Directories whose files a package manager or the kernel owns.
const NOT_OURS: &[&str] =
    &["proc", "sys", "dev", "run", "tmp", "data", "var/lib/dpkg", "var/lib/rpm", "var/log", "var/cache"];
/// Mounts what a program sees on every machine, then runs it in the root as that user.
const ENTER: &str = r#"
root=$1 data=$2 writable=$3 user=$4
shift 4
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount --bind "$data" "$root/data"
if [ "$writable" = yes ]; then mount -t tmpfs tmpfs "$root/tmp"; else mount -o remount,bind,ro "$root"; fi
cd /
exec chroot --userspec="$user" "$root" "$@"
"#;

/// Name of the script in a command, and number of its words before those of the program.
pub(super) const ENTERING: &str = "enter";
pub(super) const ENTERING_WORDS: usize = 4;

/// A root file system.
#[derive(Debug)]
pub(super) struct Root {
    directory: TempDir,
    data: TempDir,
    user: u32,
    is_writable: bool,
}

impl Root {
    /// Makes an empty root.
    ///
    /// # Errors
    /// A directory cannot be made.
    pub fn empty(below: &Path) -> Result<Self> {
        fs::create_dir_all(below).with_context(|| format!("make {}", below.display()))?;
        let new =
            |prefix: &str| tempfile::Builder::new().prefix(prefix).tempdir_in(below).context("make a root");
        let root = Self { directory: new("root.")?, data: new("data.")?, user: 0, is_writable: true };
        fs::set_permissions(root.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .context("set a mode")?;
        root.add_mount_points()?;
        Ok(root)
    }

    /// Makes the root of a release of Debian. It is made once by mmdebstrap and unpacked each time.
    ///
    /// # Errors
    /// The mirror does not have the release, or mmdebstrap is missing.
    pub fn debian(tools: &Tools, below: &Path, release: &str) -> Result<Self> {
        let kept = tools.roots().join(format!("{release}.tar"));
        if !kept.exists() {
            eprintln!("dist: makes a root of Debian {release}");
            fs::create_dir_all(tools.roots()).context("make the directory of roots")?;
            let part = tools.roots().join(format!("{release}.part.tar"));
            run(Command::new("mmdebstrap").args(["--quiet", "--variant=minbase", release]).arg(&part))?;
            fs::rename(&part, &kept).context("keep a root")?;
        }
        let root = Self::empty(below)?;
        run(Command::new("tar").arg("-xf").arg(&kept).arg("-C").arg(root.path()).arg("--exclude=./dev/*"))?;
        root.add_mount_points()?;
        Ok(root)
    }

    fn add_mount_points(&self) -> Result<()> {
        for name in ["proc", "sys", "dev", "tmp", "data"] {
            fs::create_dir_all(self.path().join(name)).context("make a mount point")?;
        }
        Ok(())
    }

    /// Programs run as this user, on a root that they cannot write to.
    pub fn read_only_as(mut self, user: u32) -> Result<Self> {
        (self.user, self.is_writable) = (user, false);
        std::os::unix::fs::chown(self.data.path(), Some(user), Some(user))
            .context("give a directory away")?;
        Ok(self)
    }

    /// Returns the directory of the root.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the directory behind [`DATA`].
    pub fn data(&self) -> &Path {
        self.data.path()
    }

    /// Returns a command in this root.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "--propagation",
            "private",
            "--pid",
            "--fork",
            "--kill-child",
            "--",
            "sh",
            "-euc",
            ENTER,
        ]);
        command.arg(ENTERING).arg(self.path()).arg(self.data());
        command
            .arg(if self.is_writable { "yes" } else { "no" })
            .arg(format!("{0}:{0}", self.user))
            .args(words);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C.UTF-8");
        // A user whom the image does not know has no home.
        if self.is_writable {
            command.env("HOME", DATA);
        }
        command
    }

    /// Returns the paths of all files that are not the package manager's own.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn files(&self) -> Result<BTreeSet<PathBuf>> {
        let mut files = BTreeSet::new();
        let mut next = vec![self.path().to_owned()];
        while let Some(directory) = next.pop() {
            for entry in fs::read_dir(&directory).with_context(|| format!("list {}", directory.display()))? {
                let entry = entry.context("list a directory")?;
                let path = entry.path();
                let own = path.strip_prefix(self.path()).context("a path of the root")?;
                if NOT_OURS.iter().any(|other| own == Path::new(other)) {
                    continue;
                }
                files.insert(own.to_owned());
                if entry.file_type().context("look at a file")?.is_dir() {
                    next.push(path);
                }
            }
        }
        Ok(files)
    }
}

/// Returns why no root can be used here, if so.
pub(super) fn refusal() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("only root can mount and change the root directory".into());
    }
    let mut unshare = Command::new("unshare");
    let works =
        unshare.args(["--mount", "--pid", "--fork", "true"]).status().is_ok_and(|status| status.success());
    (!works).then(|| "this machine does not let unshare make a mount namespace".into())
}

/// Checks that a removed package left nothing behind.
///
/// # Errors
/// Files are left, or others are gone.
pub(super) fn ensure_same(before: &BTreeSet<PathBuf>, after: &BTreeSet<PathBuf>) -> Result<()> {
    let left: Vec<_> = after.difference(before).collect();
    let gone: Vec<_> = before.difference(after).collect();
    ensure!(left.is_empty() && gone.is_empty(), "left behind: {left:?}; gone: {gone:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_of_a_package_are_found() {
        let set = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
        assert!(ensure_same(&set(&["a"]), &set(&["a"])).is_ok());
        let error = ensure_same(&set(&["a", "b"]), &set(&["a", "c"])).unwrap_err().to_string();
        assert_eq!(error, r#"left behind: ["c"]; gone: ["b"]"#);
    }

    #[test]
    fn files_of_a_root_leave_out_those_of_others() {
        let below = tempfile::tempdir().unwrap();
        let root = Root::empty(below.path()).unwrap();
        for name in ["usr/bin", "var/log/x", "proc/1"] {
            fs::create_dir_all(root.path().join(name)).unwrap();
        }
        assert_eq!(root.files().unwrap(), ["usr", "usr/bin", "var"].map(PathBuf::from).into());
    }
}
