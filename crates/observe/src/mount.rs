//! Finds the mount of a path.

use std::path::Path;

use crate::parse::mountinfo::Mount;

/// Returns the mount of a path: by its number if known, otherwise by walking down from the top.
pub(crate) fn find<'a>(mounts: &'a [Mount], id: Option<u64>, path: &str) -> Option<&'a Mount> {
    let by_id = id.and_then(|id| mounts.iter().find(|mount| mount.id == id));
    by_id.or_else(|| by_path(mounts, path))
}

/// Returns the mount where a look-up of `path` ends.
///
/// Like the kernel, the walk goes from each mount to the first mount on it along the path. So it finds the
/// upper of two mounts at one place. It skips a covered mount, however long its path.
fn by_path<'a>(mounts: &'a [Mount], path: &str) -> Option<&'a Mount> {
    let on_the_way = |mount: &&Mount| Path::new(path).starts_with(&mount.mount_point);
    let first = |a: &&Mount, b: &&Mount| a.mount_point.len().cmp(&b.mount_point.len()).then(b.id.cmp(&a.id));
    let is_top = |mount: &&Mount| {
        mount.parent_id == mount.id || !mounts.iter().any(|other| other.id == mount.parent_id)
    };
    let mut current = mounts.iter().filter(on_the_way).filter(is_top).min_by(first)?;
    for _ in 0..mounts.len() {
        let on_it = |mount: &&Mount| mount.parent_id == current.id && mount.id != current.id;
        match mounts.iter().filter(on_the_way).filter(on_it).min_by(first) {
            Some(next) => current = next,
            None => break,
        }
    }
    Some(current)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::find;
    use crate::parse::mountinfo::parse;

    const MOUNTS: &str = "\
        20 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
        21 20 8:2 / /mnt rw - ext4 /dev/sda2 rw\n\
        22 21 8:3 / /mnt/a rw - ext4 /dev/sda3 rw\n\
        23 21 8:4 / /mnt rw - xfs /dev/sda4 rw\n\
        24 20 8:5 / /mn rw - ext4 /dev/sda5 rw\n";

    fn at(path: &str) -> u64 {
        find(&parse(MOUNTS), None, path).unwrap().id
    }

    #[test]
    fn longest_prefix_of_whole_names_wins() {
        assert_eq!(at("/home"), 20);
        assert_eq!(at("/mn/x"), 24);
        assert_eq!(at("/mntx"), 20);
    }

    #[test]
    fn upper_of_stacked_mounts_wins() {
        assert_eq!(at("/mnt"), 23);
        assert_eq!(at("/mnt/b"), 23);
        assert_eq!(at("/mnt/a/b"), 23);
    }

    #[test]
    fn mount_id_takes_precedence_over_path() {
        assert_eq!(find(&parse(MOUNTS), Some(22), "/mnt/a").unwrap().id, 22);
        assert_eq!(find(&parse(MOUNTS), Some(99), "/mnt/a").unwrap().id, 23);
    }

    #[test]
    fn empty_and_self_parented_mount_tables_are_handled() {
        assert!(find(&[], None, "/").is_none());
        assert_eq!(find(&parse("1 1 0:1 / / rw - rootfs rootfs rw\n"), None, "/a").unwrap().id, 1);
    }

    proptest! {
        #[test]
        fn search_in_any_mount_tree_terminates(parents in proptest::collection::vec(0u64..8, 0..8), path in "(/[ab]){0,4}") {
            let line = |(id, parent)| {
                let mount_point = ["/", "/a", "/a/b", "/a"][id % 4];
                format!("{id} {parent} 0:1 / {mount_point} rw - t s rw\n")
            };
            let text: String = parents.iter().enumerate().map(line).collect();
            find(&parse(&text), None, &path);
        }
    }
}
