//! The test directory, if it has to be created. It is removed again if it is still the same directory and empty.

use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use model::UserError;

use crate::exit::Failure;
use crate::terminal;

/// A directory that we have made.
pub struct TestDirectory {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

impl TestDirectory {
    /// Makes a directory in an existing one; `None` if there is something of that name.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn make_if_missing(path: &Path) -> Result<Option<Self>, Failure> {
        let action = || format!("create the directory {}", path.display());
        // Others may look into it, as into the original's.
        match std::fs::DirBuilder::new().mode(0o755).create(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
            // A path that ends in .. or lies on a read-only file system may well be there.
            Err(_) if path.is_dir() => return Ok(None),
            Err(error) => {
                let help = "use -dir with an existing directory, or one whose parent exists";
                return Err(Failure::failed(UserError::new(action(), error).help(help)));
            }
            Ok(()) => {}
        }
        // The full name is found again wherever we are.
        let identity = |path: &Path| std::fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()));
        let made = std::fs::canonicalize(path).and_then(|path| Ok(Self { identity: identity(&path)?, path }));
        made.map(Some).map_err(|error| Failure::failed(UserError::new(action(), error)))
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let is_ours = std::fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == self.identity);
        // A directory that is not ours is left alone. This call does not remove one that is not empty.
        if !is_ours {
            return;
        }
        if let Err(error) = std::fs::remove_dir(&self.path) {
            let path = self.path.display();
            let error = UserError::new(format!("remove the directory {path}, which skye created"), error);
            terminal::message("warning", &error.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_directory_is_removed_unless_filled_or_replaced() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("new");
        let make = |path: &Path| TestDirectory::make_if_missing(path).unwrap();
        let made = make(&path);
        assert!(path.is_dir() && made.is_some());
        assert!(make(&path).is_none(), "it is there");
        drop(made);
        assert!(!path.exists());
        // Somebody has put something into it.
        let made = make(&path);
        std::fs::write(path.join("precious"), "x").unwrap();
        drop(made);
        assert_eq!(std::fs::read(path.join("precious")).unwrap(), b"x");
        // Somebody has put another directory in its place.
        let other = home.path().join("other");
        let made = make(&other);
        std::fs::rename(&other, home.path().join("moved")).unwrap();
        std::fs::create_dir(&other).unwrap();
        drop(made);
        assert!(other.is_dir() && home.path().join("moved").is_dir());
    }

    #[test]
    fn missing_parent_directory_is_not_created() {
        let home = tempfile::tempdir().unwrap();
        let deep = home.path().join("a/b");
        let Err(Failure::Failed(message)) = TestDirectory::make_if_missing(&deep) else {
            panic!("it is made")
        };
        assert!(message.contains("a/b") && message.contains("-dir"), "{message}");
        assert!(!home.path().join("a").exists());
    }
}
