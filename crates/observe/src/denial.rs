//! Security modules of the kernel that deny what the mode of a directory allows.

use std::path::Path;

use rustix::fs::Stat;

use crate::root::Root;

/// Bits of a mode by which files may be made in a directory: write and search.
const WRITE_AND_SEARCH: u32 = 0o3;

/// Returns the security module that may have denied a new file in a directory, and the place of its log. Returns `None`
/// if the mode denies it, or no module is enforcing.
pub fn denial(root: &Root, directory: &Path) -> Option<String> {
    let stat = rustix::fs::stat(directory).ok()?;
    if !allows(&stat, rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()) {
        return None;
    }
    let mut label = vec![0; 256];
    let length = rustix::fs::getxattr(directory, c"security.selinux", &mut label[..]).unwrap_or(0);
    enforcing_module(root, &text(&label[..length]))
}

/// Returns true if the mode lets a user make files in a directory.
fn allows(directory: &Stat, user: u32, group: u32) -> bool {
    let shift = if directory.st_uid == user {
        6
    } else if directory.st_gid == group {
        3
    } else {
        0
    };
    user == 0 || directory.st_mode >> shift & WRITE_AND_SEARCH == WRITE_AND_SEARCH
}

fn enforcing_module(root: &Root, label: &str) -> Option<String> {
    let own = root.read("proc/self/attr/current").unwrap_or_default();
    let own = text(own.as_bytes());
    if root.read("sys/fs/selinux/enforce").is_some_and(|enforces| enforces.trim() == "1") {
        return Some(format!(
            "SELinux may deny it to {own} on {label}; `ausearch -m avc -ts recent` lists denials"
        ));
    }
    let is_enabled =
        root.read("sys/module/apparmor/parameters/enabled").is_some_and(|enabled| enabled.trim() == "Y");
    let profile = own.strip_suffix(" (enforce)").filter(|_| is_enabled)?;
    Some(format!("AppArmor may deny it by the profile {profile}; the kernel's log lists denials"))
}

/// Returns the text of an attribute, without the zero or the line end behind it.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches(['\0', '\n']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn security_module_that_enforces_is_named() {
        let temp = tempfile::tempdir().unwrap();
        let root = Root::at(temp.path());
        let write = |name: &str, text: &str| {
            let path = temp.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(enforcing_module(&root, ""), None);
        write("proc/self/attr/current", "docker-default (enforce)\n");
        assert_eq!(enforcing_module(&root, ""), None);
        write("sys/module/apparmor/parameters/enabled", "Y\n");
        assert!(
            enforcing_module(&root, "")
                .unwrap()
                .contains("AppArmor may deny it by the profile docker-default;")
        );
        write("proc/self/attr/current", "unconfined\n");
        assert_eq!(enforcing_module(&root, ""), None);
        write("proc/self/attr/current", "system_u:system_r:container_t:s0\0");
        write("sys/fs/selinux/enforce", "0");
        assert_eq!(enforcing_module(&root, ""), None);
        write("sys/fs/selinux/enforce", "1");
        let message = enforcing_module(&root, "system_u:object_r:var_t:s0").unwrap();
        assert!(
            message.contains("to system_u:system_r:container_t:s0 on system_u:object_r:var_t:s0;"),
            "{message}"
        );
    }

    #[test]
    fn mode_bits_are_checked_for_owner_group_and_others() {
        let temp = tempfile::tempdir().unwrap();
        let stat = rustix::fs::stat(temp.path()).unwrap();
        let with = |mode| {
            let mut stat = stat;
            (stat.st_mode, stat.st_uid, stat.st_gid) = (mode, 7, 8);
            stat
        };
        assert!(allows(&with(0o700), 7, 9) && allows(&with(0o000), 0, 0));
        assert!(!allows(&with(0o077), 7, 8) && allows(&with(0o030), 9, 8));
        assert!(!allows(&with(0o774), 9, 9) && allows(&with(0o003), 9, 9));
    }
}
