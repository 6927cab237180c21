//! Hosts that ssh reaches: an sshd for each connection, with keys that are made for one test.

use std::fs;
use std::path::Path;
use std::process::Command;

use rig::PREPARE_SSHD;

/// Writes keys, and the configuration of ssh and of its hosts' sshd, to a directory. Each host has a name, and the
/// command that runs another one there. Returns the launcher for `--rsh`.
pub fn configured(home: &Path, hosts: &[(&str, String)]) -> String {
    for key in ["host", "key"] {
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", "skye-test", "-f"]).arg(home.join(key));
        assert!(keygen.status().unwrap().success());
    }
    let at = home.display();
    let public = fs::read_to_string(home.join("host.pub")).unwrap();
    let start = "exec \"$(command -v sshd)\" -i -f \"$1/sshd_config\"\n";
    let sshd = ["set -e\nmount -t sysfs skye-test /sys\n", PREPARE_SSHD, start].concat();
    let of_sshd = format!(
        "HostKey {at}/host\nAuthorizedKeysFile {at}/key.pub\nPidFile none\nAuthenticationMethods publickey\n\
         PermitRootLogin prohibit-password\nUsePAM no\nStrictModes no\nUseDNS no\n"
    );
    let of_all = format!(
        "Host *\n  User root\n  HostKeyAlias skye-test\n  IdentityFile {at}/key\n  IdentitiesOnly yes\n  \
         IdentityAgent none\n  UserKnownHostsFile {at}/known\n  GlobalKnownHostsFile /dev/null\n  BatchMode yes\n"
    );
    let of_one = |(name, there): &(&str, String)| {
        format!("Host {name}\n  ProxyCommand {there} unshare --mount sh {at}/sshd {at}\n")
    };
    let each: String = hosts.iter().map(of_one).collect();
    for (name, text) in [
        ("known", format!("skye-test {public}")),
        ("sshd", sshd),
        ("sshd_config", of_sshd),
        ("config", each + &of_all),
    ] {
        fs::write(home.join(name), text).unwrap();
    }
    format!("ssh -F {at}/config")
}
