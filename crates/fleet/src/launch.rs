//! Command lines that start an agent: on this machine, over ssh, or by the user's launcher.
//!
//! ssh never prompts: a prompt would block an unattended run for ever. Another launcher gets the host and the arguments
//! of a command. It may join them for a shell, as ssh does, or not, as kubectl does. So these arguments contain no
//! special characters of a shell.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use model::UserError;
use model::hosts::ClientSpec;

use crate::send::Copy;

/// Options of ssh, unless the user sets another launcher: no prompt, and a limit for the connection.
const SSH: &[&str] = &["ssh", "-T", "-oBatchMode=yes", "-oConnectTimeout=10"];
/// Placeholder of the host in the arguments of a launcher.
const HOST: &str = "{}";

/// Way to start programs on hosts.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// This program, for clients on this machine.
    pub own_program: OsString,
    /// Words of another launcher than ssh.
    pub rsh: Option<Vec<String>>,
    /// Name or path of skye on other hosts.
    pub remote_program: String,
}

impl Launcher {
    /// Reads the words of a launcher as a shell would.
    ///
    /// # Errors
    /// There is no word, or a quote has no end.
    pub fn words(text: &str) -> Result<Vec<String>, String> {
        match shlex::split(text) {
            Some(words) if !words.is_empty() => Ok(words),
            Some(_) => Err("it contains no program".into()),
            None => Err(format!("`{text}` has an unclosed quote")),
        }
    }

    /// Returns the command that runs skye with `arguments` on this machine.
    pub fn here(&self, arguments: &[String]) -> Command {
        let mut command = Command::new(&self.own_program);
        command.args(arguments);
        in_own_group(command)
    }

    /// Returns the command that runs skye with `arguments` on a host. A host that is reached by ssh may want a copy.
    ///
    /// # Errors
    /// An argument needs quotes, and it is unknown if the user's launcher has a shell that removes them.
    pub fn command(
        &self,
        host: &ClientSpec,
        arguments: &[String],
        copy: Option<&Copy>,
    ) -> Result<Command, UserError> {
        if host.is_local() {
            return Ok(self.here(arguments));
        }
        let launcher = self.launcher();
        let mut command;
        if self.is_ssh() {
            let line = match copy {
                Some(copy) => copy.line(&self.remote_program, arguments),
                None => self.remote_line(arguments),
            };
            command = Command::new(&launcher[0]);
            command.args(&launcher[1..]).arg(&host.host).arg(line);
        } else {
            let own = || std::iter::once(&self.remote_program).chain(arguments);
            if let Some(word) = own().find(|word| quoted(word) != **word) {
                let action = format!("pass `{word}` through `{}`", launcher.join(" "));
                return Err(UserError::new(action, "a shell there may interpret its special characters")
                    .help("use a directory whose path has only letters, digits, slashes, dots and hyphens"));
            }
            let words = with_host(&launcher, &host.host);
            command = Command::new(&words[0]);
            command.args(&words[1..]).args(own());
        }
        Ok(in_own_group(command))
    }

    /// Returns the words of the launcher.
    fn launcher(&self) -> Vec<String> {
        self.rsh.clone().unwrap_or_else(|| SSH.iter().map(|word| (*word).to_owned()).collect())
    }

    /// Returns true if ssh starts the programs: its last word is a line for the shell of the host.
    pub fn is_ssh(&self) -> bool {
        let words = self.launcher();
        let is_ssh = |word: &String| word.rsplit('/').next() == Some(SSH[0]);
        // A second one has a shell of its own between.
        let others = words.iter().skip(1).any(|word| is_ssh(word) || word == HOST);
        words.first().is_some_and(is_ssh) && !others
    }

    /// Returns the text that a shell on the host runs.
    fn remote_line(&self, arguments: &[String]) -> String {
        let words = std::iter::once(&self.remote_program).chain(arguments);
        words.map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }

    /// Returns the command line that a user types to run skye with `arguments` on a host.
    pub fn user_command_line(&self, host: &ClientSpec, arguments: &[String]) -> String {
        if host.is_local() {
            let words = std::iter::once("skye").chain(arguments.iter().map(String::as_str));
            return words.map(quoted).collect::<Vec<_>>().join(" ");
        }
        let launcher = match &self.rsh {
            Some(words) => with_host(words, &host.host).join(" "),
            None => format!("ssh {}", host.host),
        };
        format!("{launcher} {}", self.remote_line(arguments))
    }
}

/// Makes a command run in its own process group, with its streams as a channel.
fn in_own_group(mut command: Command) -> Command {
    // A signal from the terminal is the coordinator's, which ends its agents in order.
    command.process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns the words of a launcher with the host in its place, or at their end.
fn with_host(rsh: &[String], host: &str) -> Vec<String> {
    let mut words = rsh.to_vec();
    match words.iter_mut().find(|word| *word == HOST) {
        Some(place) => *place = host.to_owned(),
        None => words.push(host.to_owned()),
    }
    words
}

/// Returns a word as a POSIX shell reads it. A word with a NUL, which no command line can hold, stays as it is.
pub(crate) fn quoted(word: &str) -> String {
    shlex::try_quote(word).map_or_else(|_| word.to_owned(), Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launcher(rsh: Option<&str>) -> Launcher {
        Launcher {
            own_program: "/bin/skye".into(),
            rsh: rsh.map(|text| Launcher::words(text).unwrap()),
            remote_program: "skye".into(),
        }
    }

    fn line(command: &Command) -> Vec<String> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        words.map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn hosts_are_reached_by_ssh_or_by_another_launcher() {
        let hosts = model::hosts::parse("root@ada,local").unwrap();
        let arguments = ["agent", "--dir", "/mnt/my disk"].map(String::from);
        let over_ssh = line(&launcher(None).command(&hosts[0], &arguments, None).unwrap());
        let shell = shlex::split(&over_ssh[5]).unwrap();
        assert_eq!(over_ssh[..5], ["ssh", "-T", "-oBatchMode=yes", "-oConnectTimeout=10", "root@ada"]);
        assert_eq!(shell, ["skye", "agent", "--dir", "/mnt/my disk"]);
        let local = line(&launcher(None).command(&hosts[1], &arguments, None).unwrap());
        assert_eq!(local, ["/bin/skye", "agent", "--dir", "/mnt/my disk"]);
        // A launcher without a shell gets each word by itself, and one with a shell joins them again.
        let kubectl = launcher(Some("kubectl exec -i {} --"));
        let plain = ["agent", "--dir", "/mnt"].map(String::from);
        let expected = ["kubectl", "exec", "-i", "root@ada", "--", "skye", "agent", "--dir", "/mnt"];
        assert_eq!(line(&kubectl.command(&hosts[0], &plain, None).unwrap()), expected);
        assert!(kubectl.command(&hosts[0], &arguments, None).is_err());
        let ssh = launcher(Some("ssh -p 22"));
        assert_eq!(
            line(&ssh.command(&hosts[0], &plain, None).unwrap())[..4],
            ["ssh", "-p", "22", "root@ada"]
        );
        let clean = ["clean", "/mnt"].map(String::from);
        assert_eq!(
            kubectl.user_command_line(&hosts[0], &clean),
            "kubectl exec -i root@ada -- skye clean /mnt"
        );
        assert_eq!(launcher(None).user_command_line(&hosts[0], &clean), "ssh root@ada skye clean /mnt");
        assert_eq!(launcher(None).user_command_line(&hosts[1], &clean), "skye clean /mnt");
    }

    #[test]
    fn launcher_command_is_split_like_a_shell_command() {
        assert_eq!(Launcher::words("ssh -o 'User me' \"\"").unwrap(), ["ssh", "-o", "User me", ""]);
        assert!(Launcher::words("  ").is_err() && Launcher::words("ssh 'x").is_err());
    }

    #[test]
    fn quoted_argument_reads_back_in_shell() {
        for word in
            ["plain", "with blank", "it's", "$(touch x)", "a;b", "", "\"", "tab\there", "`x`", "*", "~"]
        {
            let shell =
                Command::new("sh").arg("-c").arg(format!("printf %s {}", quoted(word))).output().unwrap();
            assert_eq!(String::from_utf8(shell.stdout).unwrap(), word);
        }
    }
}
