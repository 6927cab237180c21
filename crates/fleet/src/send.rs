//! Copies of this program for hosts that have none, sent over the channel of their agent.
//!
//! ssh gives a host one line for its shell. Where the shell finds skye, it becomes the agent. Where it does not, its
//! first frame requests the program, which it stores in an unlinked file. The host skips the first frame of the
//! coordinator, which was sent before, so that frame is sent again after the program.

use std::io;
use std::sync::Arc;

use model::frames::ProgramRequest;

use crate::launch::quoted;

/// Bytes that the host reads at once. The program is filled up to a multiple of them, so that the host reads no byte
/// of what follows.
const BLOCK_BYTES: usize = 1 << 16;

/// Part of the host's shell. `$skye` is the name of the program, `$first` the bytes that it skips, `$blocks` the blocks that
/// it reads. The arguments are those of the agent.
///
/// The file is in a directory with a sticky bit, or in one of the user's that no other user can write to. The shell enters
/// it once, and names there are relative. A directory may be mounted without the right to execute, so the shell starts the
/// empty file, which does nothing. The file loses its name before its first byte, so that a kill leaves an empty file at
/// most. Zeros take the room of the program before it is requested, so that the next directory is tried where they do not
/// fit. A file that is open for writing cannot be started: another descriptor reads it.
const SCRIPT: &str = concat!(
    r#"command -v "$skye" >/dev/null 2>&1 && exec "$skye" "$@"; "#,
    r#"body="{\"architecture\":\"$(uname -m)\"}"; mask=$(umask); umask 077; user=$(id -u); old=$(pwd -P); file=; "#,
    r#"trap 'test -n "$file" && rm -f "./$file"' 0; trap 'exit 1' 1 2 13 15; "#,
    r#"for place in "$XDG_RUNTIME_DIR" /dev/shm /tmp /var/tmp "$HOME"; do "#,
    r#"case "$place" in /*) ;; *) continue ;; esac; cd -P "$place" 2>/dev/null || continue; "#,
    r#"case "$(ls -ldn . | { read -r mode links owner rest; echo "$mode $owner"; })" in "#,
    r#"d????-??-*" $user" | d????????[tT]*" $user" | d????????[tT]*" 0") ;; *) continue ;; esac; "#,
    r#"file=$(mktemp skye-sent.XXXXXX 2>/dev/null) || continue; "#,
    r#"chmod 700 "./$file" && "./$file" 2>/dev/null && exec 3>"./$file" 4<"./$file" && rm "./$file" && "#,
    r#"dd if=/dev/zero of=/proc/self/fd/3 bs=65536 count="$blocks" conv=notrunc 2>/dev/null && break; "#,
    r#"exec 3>&- 4<&-; rm -f "./$file"; file=; done; "#,
    r#"test -n "$file" || { echo "there is no $skye, and no directory has space for an executable copy" >&2; exit 1; }; "#,
    r#"file=; cd -P "$old" || exit 1; printf "\000\000\000\\$(printf %03o ${#body})%s" "$body"; "#,
    r#"dd bs="$first" count=1 iflag=fullblock of=/dev/null 2>/dev/null && "#,
    r#"dd bs=65536 count="$blocks" iflag=fullblock >&3 2>/dev/null || "#,
    r#"{ echo "there is no $skye, and a copy cannot be written to $place" >&2; exit 1; }; exec 3>&-; "#,
    r#"/proc/self/fd/4 --version </dev/null >/dev/null || "#,
    r#"{ echo "there is no $skye, and a copy of this one does not start there" >&2; exit 1; }; "#,
    r#"trap - 0 1 2 13 15; umask "$mask"; exec /proc/self/fd/4 "$@""#
);

/// This program, for hosts that have none.
#[derive(Debug, Clone)]
pub struct Copy {
    bytes: Arc<[u8]>,
    /// Bytes of the first frame, which the host skips.
    first_bytes: usize,
}

impl Copy {
    /// Reads this program.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn from_this_program(first_bytes: usize) -> io::Result<Self> {
        let mut bytes = std::fs::read("/proc/self/exe")?;
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        Ok(Self { bytes: bytes.into(), first_bytes })
    }

    /// Returns the bytes to send to a host that wants the program.
    ///
    /// # Errors
    /// The host is of another kind of machine.
    pub fn program_for(&self, request: &ProgramRequest) -> Result<Arc<[u8]>, String> {
        let own = std::env::consts::ARCH;
        if request.architecture != own {
            let machine = crate::texts::short(&request.architecture);
            return Err(format!("there is no skye, and this one is for {own}, not for {machine}"));
        }
        Ok(Arc::clone(&self.bytes))
    }

    /// Returns the line for the shell of a host that may have no skye of that name.
    pub fn line(&self, skye: &str, arguments: &[String]) -> String {
        let blocks = self.bytes.len() / BLOCK_BYTES;
        // One line without exclamation marks, which other shells than that of POSIX understand as well.
        let settings = format!("exec env skye={} first={} blocks={blocks}", quoted(skye), self.first_bytes);
        let words = arguments.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        format!("{settings} sh -c {} skye {words}", quoted(SCRIPT))
    }
}

#[cfg(test)]
mod tests {
    use model::marker::SENT_PREFIX;

    use super::*;

    #[test]
    fn program_copy_for_other_architecture_is_refused() {
        let copy = Copy { bytes: vec![7; BLOCK_BYTES].into(), first_bytes: 9 };
        assert_eq!(
            copy.program_for(&ProgramRequest { architecture: std::env::consts::ARCH.into() }).unwrap().len(),
            BLOCK_BYTES
        );
        let refused = copy.program_for(&ProgramRequest { architecture: "s390x".into() }).unwrap_err();
        assert!(refused.starts_with("there is no skye, and this one is for "), "{refused}");
        let line = copy.line("my skye", &["agent".into(), "--dir".into(), "/a b".into()]);
        let words = shlex::split(&line).unwrap();
        assert_eq!(words[..6], ["exec", "env", "skye=my skye", "first=9", "blocks=1", "sh"]);
        assert_eq!(words[8..], ["skye", "agent", "--dir", "/a b"]);
        assert!(!line.contains(['\n', '!']), "{line}");
        assert!(SCRIPT.contains(&format!("{SENT_PREFIX}XXXXXX")));
    }
}
