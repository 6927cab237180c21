//! bcache: a slow device behind a fast one. The files are those of the kernel's Documentation/admin-guide/bcache.rst.

use crate::device::SysfsDevice;
use crate::root::Root;
use crate::settings;

/// Returns the mode of the cache: "bcache, writethrough".
pub(crate) fn details(root: &Root, place: &SysfsDevice) -> Option<String> {
    let modes = place.line(root, "bcache/cache_mode")?;
    Some(settings::chosen(&modes).map_or("bcache".to_owned(), |mode| format!("bcache, {mode}")))
}

/// Returns a note if a cache is attached.
pub(crate) fn note(root: &Root, place: &SysfsDevice) -> Option<String> {
    let state = place.line(root, "bcache/state").filter(|state| state != "no cache")?;
    let dirty = if state == "dirty" { ", which has dirty data" } else { "" };
    Some(format!("{} is cached by another device{dirty}", place.name))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn cache_is_reported_once_attached() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("sys/class/block/bcache0");
        fs::create_dir_all(directory.join("bcache")).unwrap();
        fs::write(directory.join("dev"), "252:0\n").unwrap();
        let set = |name: &str, text: &str| fs::write(directory.join("bcache").join(name), text).unwrap();
        set("cache_mode", "writethrough [writeback] writearound none\n");
        set("state", "no cache\n");
        let root = Root::at(home.path());
        let place = SysfsDevice::by_name(&root, "bcache0").unwrap();
        assert_eq!(details(&root, &place).as_deref(), Some("bcache, writeback"));
        assert_eq!(note(&root, &place), None);
        set("state", "dirty\n");
        let found = note(&root, &place).unwrap();
        assert_eq!(found, "bcache0 is cached by another device, which has dirty data");
        set("state", "clean\n");
        assert_eq!(note(&root, &place).as_deref(), Some("bcache0 is cached by another device"));
    }
}
