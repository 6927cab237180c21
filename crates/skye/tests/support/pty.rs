//! Terminals for the program.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::thread::JoinHandle;

use rustix::pty::OpenptFlags;
use rustix::termios::{Winsize, tcsetwinsize};

/// A pseudo-terminal.
pub struct Terminal {
    owner: OwnedFd,
    program_side: Option<File>,
}

impl Terminal {
    /// Opens a terminal of this width.
    pub fn open(columns: u16) -> Self {
        let owner = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        rustix::pty::grantpt(&owner).unwrap();
        rustix::pty::unlockpt(&owner).unwrap();
        let name = rustix::pty::ptsname(&owner, Vec::new()).unwrap();
        let name = std::ffi::OsStr::from_bytes(name.as_bytes());
        let program_side = OpenOptions::new().read(true).write(true).open(name).unwrap();
        let terminal = Self { owner, program_side: Some(program_side) };
        terminal.resize(columns);
        terminal
    }

    /// Returns the side of a program.
    pub fn program_side(&self) -> File {
        self.program_side.as_ref().unwrap().try_clone().unwrap()
    }

    /// Closes the side of the program here, so that its end is seen.
    pub fn close(&mut self) {
        self.program_side = None;
    }

    /// Changes the width.
    pub fn resize(&self, columns: u16) {
        let size = Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.owner, size).unwrap();
    }

    /// Collects all that programs write, until none has the terminal any more. Call [`Self::close`] before the wait for it.
    pub fn read_all(&self) -> JoinHandle<String> {
        let mut owner = self.owner_file();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // The read ends in an error then.
            let _ = owner.read_to_end(&mut bytes);
            String::from_utf8(bytes).unwrap()
        })
    }

    /// Reads until the other side is closed, and acts once when `text` has been written.
    pub fn read_all_and(&self, text: &str, act: impl FnOnce(&Self)) -> String {
        let mut owner = &self.owner_file();
        let (mut bytes, mut part, mut act) = (Vec::new(), [0; 4096], Some(act));
        // The read ends in an error then.
        while let Ok(count @ 1..) = owner.read(&mut part) {
            bytes.extend(&part[..count]);
            if String::from_utf8_lossy(&bytes).contains(text)
                && let Some(act) = act.take()
            {
                act(self);
            }
        }
        String::from_utf8(bytes).unwrap()
    }

    fn owner_file(&self) -> File {
        File::from(self.owner.try_clone().unwrap())
    }
}
