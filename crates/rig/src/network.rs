//! A network file system: a directory in memory behind a network of a known rate, mounted by sshfs.
//!
//! The network is a pair of network devices with a token bucket at each end. One of them is in a network namespace with
//! an sshd. If the network has a delay, a relay runs between `sshfs` and its `ssh`. The server also has a PID and a
//! mount namespace. So its children end with it, and it needs nothing in the system's directories.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use model::UserError;

use crate::command;
use crate::journal::{Journal, is_mounted, unique_letters};
use crate::relay;
use crate::spec::{self, NetworkSpec};
use crate::step::{Outcome, Step};

/// Directory where the kernel shows network devices.
const DEVICES: &str = "/sys/class/net";
/// Prefix of our devices' names; the kernel takes 15 letters.
const LINK_PREFIX: &str = "skye-";
/// The device at the server's end, which is alone there.
const PEER_DEVICE: &str = "server";
/// Port of the server, which is alone there, too.
const PORT: u16 = 2022;
/// The script that delays the traffic of `sshfs`.
const RELAY: &str = "ssh";
/// The file with the delay of the traffic.
const DELAY: &str = "delay";
/// Type of the file system, as the kernel shows it.
const KIND: &str = "fuse.sshfs";
/// Capacity of a bucket: one packet of the largest size that the kernel makes.
const BURST: &str = "64kb";
/// Bytes that may wait for their turn: more than one connection has under way. Dropped bytes would be sent again after
/// an unknown time, and the rate could fall to half.
const QUEUE: &str = "16mb";
/// Room for keys and the like.
const OWN_BYTES: u64 = 1 << 20;
/// Timeout for the start of a server or its client.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Makes a root for the server alone, without copies of other mounts, which would keep their devices busy. An sshd
/// needs a directory in /run and an unlocked account, and reads the system's files for both.
const SERVE: &str = r#"set -e
home=$1
while read -r _ _ _ _ at _; do
    at=$(printf %b "$at")
    case $at in
        / | /proc | /dev | /usr* | /lib* | /bin | /sbin | /etc) continue ;;
    esac
    case $home/ in
        "$at"/*) continue ;;
    esac
    umount -l "$at" 2>/dev/null || :
done < /proc/self/mountinfo
"#;

/// Commands that make the directories and accounts of an sshd, in private mounts.
pub const PREPARE_SSHD: &str = r#"mount -t tmpfs -o mode=755 skye-rig /run
mkdir -m 755 /run/sshd
printf '%s\n' root:x:0:0::/:/bin/sh sshd:x:65534:65534::/run/sshd:/bin/false > /run/passwd
printf '%s\n' root:NP:1:::::: sshd:NP:1:::::: > /run/shadow
for file in passwd shadow; do
    mount --bind /run/$file /etc/$file
done
"#;
const START: &str = r#"exec "$(command -v sshd)" -D -e -f "$home/sshd_config"
"#;

/// The mount, and everything behind it. Dropping it undoes all of it.
#[derive(Debug)]
pub struct Network {
    journal: Journal,
    spec: NetworkSpec,
    server: Option<Child>,
    client: Option<Child>,
    link: String,
    at: PathBuf,
    /// File with the delay of its relay.
    delay_file: Option<PathBuf>,
}

impl Network {
    /// Builds a network. `program` is our own command line without the words of a rig: it can be the relay that a delay
    /// needs.
    ///
    /// # Errors
    /// The part that could not be made, and why; nothing is left then.
    pub fn build(spec: &NetworkSpec, program: &[OsString]) -> Result<Self, UserError> {
        let mut network = Self {
            journal: Journal::open()?,
            spec: spec.clone(),
            server: None,
            client: None,
            link: format!("{LINK_PREFIX}{}", unique_letters()),
            at: PathBuf::new(),
            delay_file: None,
        };
        // If this fails, dropping it undoes the parts made so far.
        network.assemble(program)?;
        Ok(network)
    }

    /// Path where it is mounted.
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// Sets another rate.
    ///
    /// # Errors
    /// The message of `tc`.
    pub fn limit(&mut self, bits_per_second: u64) -> Result<(), UserError> {
        self.spec.bits_per_second = bits_per_second;
        self.shape()
    }

    pub(crate) fn set(&mut self, words: &[&str]) -> Result<(), UserError> {
        self.spec = spec::change_network(self.spec.clone(), words)?;
        self.shape()?;
        self.set_delay()
    }

    /// Sets the delay of its relay, if it has one.
    fn set_delay(&self) -> Result<(), UserError> {
        let Some(file) = &self.delay_file else { return Ok(()) };
        let fail = |error| UserError::new(format!("write {}", file.display()), error);
        relay::set_delay(file, self.spec.delay_ns).map_err(fail)
    }

    pub(crate) fn journal(&mut self) -> &mut Journal {
        &mut self.journal
    }

    /// Undoes everything. Returns the parts that are left, and why.
    pub(crate) fn undo(&mut self) -> Vec<String> {
        let left = self.journal.undo();
        for mut child in [self.client.take(), self.server.take()].into_iter().flatten() {
            // Undoing has killed the processes that it found; the kill of any other lets the wait end.
            let _ = child.kill();
            let _ = child.wait();
        }
        left
    }

    fn assemble(&mut self, program: &[OsString]) -> Result<(), UserError> {
        let size = self.spec.bytes.saturating_add(OWN_BYTES);
        let home = self.journal.mount("tmpfs", "skye-rig", &format!("size={size},mode=0700"))?;
        let subnet = Subnet::choose()?;
        self.write_files(&home, subnet)?;
        self.journal.note(Step::Servers(home.clone()))?;
        self.serve(&home)?;
        self.connect(subnet)?;
        self.shape()?;
        if self.spec.delay_ns > 0 {
            self.write_relay(&home, program)?;
        }
        self.mount(&home, subnet)
    }

    /// Writes keys that no one else has, and the files that both sides need.
    fn write_files(&self, home: &Path, subnet: Subnet) -> Result<(), UserError> {
        let fail = |error| UserError::new(format!("write the server's files in {}", home.display()), error);
        DirBuilder::new().mode(0o700).create(home.join("export")).map_err(fail)?;
        for key in ["host_key", "key"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", "skye-rig", "-f"]).arg(home.join(key));
            self.journal.run(&mut keygen, "create a key for the rig's server")?;
        }
        let public = fs::read_to_string(home.join("host_key.pub")).map_err(fail)?;
        let known = format!("[{}]:{PORT} {public}", subnet.peer_address());
        let home_text = home.display();
        let config = format!(
            "Port {PORT}\nHostKey {home_text}/host_key\nAuthorizedKeysFile {home_text}/key.pub\n\
             PidFile none\nAuthenticationMethods publickey\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nUsePAM no\nStrictModes no\n\
             UseDNS no\nPermitTTY no\nDisableForwarding yes\nSubsystem sftp internal-sftp\n\
             ForceCommand internal-sftp -d {home_text}/export\nLogLevel INFO\n"
        );
        let serve = [SERVE, PREPARE_SSHD, START].concat();
        for (name, text) in [("known_hosts", &known), ("sshd_config", &config), ("serve", &serve)] {
            fs::write(home.join(name), text).map_err(fail)?;
        }
        Ok(())
    }

    /// Writes the script that `sshfs` calls instead of `ssh`, for a delay.
    fn write_relay(&mut self, home: &Path, program: &[OsString]) -> Result<(), UserError> {
        let path = home.join(RELAY);
        let fail = |error| UserError::new(format!("write {}", path.display()), error);
        let mut file = File::options().write(true).create_new(true).mode(0o700).open(&path).map_err(fail)?;
        let delay_file = home.join(DELAY);
        self.delay_file = Some(delay_file.clone());
        file.write_all(&relay::script(program, &delay_file, "ssh")).map_err(fail)?;
        self.set_delay()
    }

    /// Starts the server, and waits until it listens.
    fn serve(&mut self, home: &Path) -> Result<(), UserError> {
        let action = "start an sshd in a network namespace";
        let mut unshare = Command::new("unshare");
        unshare.args(["--net", "--pid", "--mount", "--fork", "--kill-child", "sh"]);
        unshare.arg(home.join("serve")).arg(home);
        let log = home.join("server.log");
        let mut server = begin(&mut unshare, &log, action)?;
        let listens = || fs::read_to_string(&log).unwrap_or_default().contains("Server listening");
        let listening = wait(&mut server, listens, &log, action);
        self.server = Some(server);
        listening.map_err(|error| error.help("run it as root, and install openssh-server"))
    }

    /// Joins both ends, and gives them addresses.
    fn connect(&mut self, subnet: Subnet) -> Result<(), UserError> {
        let action = "create a network for the server";
        let server = self.server_pid();
        self.journal.note(Step::Link(self.link.clone()))?;
        let pair = [
            "link",
            "add",
            "name",
            &self.link,
            "type",
            "veth",
            "peer",
            "name",
            PEER_DEVICE,
            "netns",
            &server,
        ];
        self.ip(&pair, action)?;
        self.ip(&["address", "add", &format!("{}/30", subnet.local_address()), "dev", &self.link], action)?;
        self.ip(&["link", "set", "dev", &self.link, "up"], action)?;
        let there = |words: &[&str]| self.run_in_namespace(&[&["ip"], words].concat(), action);
        there(&["address", "add", &format!("{}/30", subnet.peer_address()), "dev", PEER_DEVICE])?;
        there(&["link", "set", "dev", PEER_DEVICE, "up"])
    }

    /// Gives both ends the rate.
    fn shape(&self) -> Result<(), UserError> {
        let rate = format!("{}bit", self.spec.bits_per_second);
        let action = format!("limit a network to {rate} a second");
        let words = |device| {
            ["tc", "qdisc", "replace", "dev", device, "root", "tbf"]
                .into_iter()
                .chain(["rate", &rate, "burst", BURST, "limit", QUEUE])
                .collect::<Vec<_>>()
        };
        let here = words(&self.link);
        self.journal.run(Command::new(here[0]).args(&here[1..]), &action)?;
        self.run_in_namespace(&words(PEER_DEVICE), &action)
    }

    fn mount(&mut self, home: &Path, subnet: Subnet) -> Result<(), UserError> {
        let at = self.journal.mount_point()?;
        let action = format!("mount by sshfs at {}", at.display());
        self.journal.note(Step::Mount { file_system: KIND.into(), at: at.clone() })?;
        // This is undone before the mount: without its server, the unmount does not wait for data that is still on its
        // way.
        self.journal.note(Step::Servers(home.to_owned()))?;
        let mut sshfs = Command::new("sshfs");
        sshfs.arg("-f").arg(format!("root@{}:", subnet.peer_address())).arg(&at);
        sshfs.args(["-p", &PORT.to_string(), "-F", "/dev/null"]);
        let [key, known] = ["key", "known_hosts"].map(|name| home.join(name).display().to_string());
        let relay = format!("ssh_command={}", home.join(RELAY).display());
        for option in [
            if self.spec.delay_ns > 0 { relay.as_str() } else { "" },
            &format!("IdentityFile={key}"),
            &format!("UserKnownHostsFile={known}"),
            "GlobalKnownHostsFile=/dev/null",
            "StrictHostKeyChecking=yes",
            "IdentitiesOnly=yes",
            "IdentityAgent=none",
            "BatchMode=yes",
            "Compression=no",
            // The measuring user may be another than the one who mounted it.
            "allow_other,default_permissions",
            self.spec.mount_options.as_str(),
        ] {
            if !option.is_empty() {
                sshfs.args(["-o", option]);
            }
        }
        let log = home.join("client.log");
        let mut client = begin(&mut sshfs, &log, &action)?;
        // It is mounted before it asks the server.
        let answers = || is_mounted(&at) && fs::metadata(&at).is_ok();
        let mounted = wait(&mut client, answers, &log, &action);
        self.client = Some(client);
        self.at = at;
        mounted
    }

    /// PID of a process in the namespace of the network.
    fn server_pid(&self) -> String {
        self.server.as_ref().map(|server| server.id().to_string()).unwrap_or_default()
    }

    fn ip(&self, words: &[&str], action: &str) -> Result<(), UserError> {
        let done = self.journal.run(Command::new("ip").args(words), action);
        done.map(drop).map_err(|error| error.help("run it as root, and install iproute2"))
    }

    fn run_in_namespace(&self, words: &[&str], action: &str) -> Result<(), UserError> {
        let mut nsenter = Command::new("nsenter");
        nsenter.args(["--target", &self.server_pid(), "--net"]).args(words);
        self.journal.run(&mut nsenter, action).map(drop)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for left in self.undo() {
            log::warn!("not removed: {left}");
        }
    }
}

/// Starts a program that keeps running. It inherits neither the journal's lock nor the pipe that the owner reads.
fn begin(command: &mut Command, log: &Path, action: &str) -> Result<Child, UserError> {
    let log_file = File::create(log).map_err(|error| UserError::new(action, error))?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::from(log_file));
    command::start(command, action)
}

/// Waits until `holds` returns true. Fails if the program exits first, or after `START_TIMEOUT`.
fn wait(program: &mut Child, holds: impl Fn() -> bool, log: &Path, action: &str) -> Result<(), UserError> {
    let deadline = Instant::now() + START_TIMEOUT;
    let log_text =
        || fs::read_to_string(log).unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    while !holds() {
        if let Ok(Some(status)) = program.try_wait() {
            return Err(UserError::new(action, format!("{status}: {}", log_text())));
        }
        if Instant::now() >= deadline {
            let seconds = START_TIMEOUT.as_secs();
            return Err(UserError::new(
                action,
                format!("it did not start within {seconds} s: {}", log_text()),
            ));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Removes a network device that a rig made, and with it the other end.
pub(crate) fn remove_link(name: &str) -> Outcome {
    let link_exists = || Path::new(DEVICES).join(name).exists();
    let is_ours = name.strip_prefix(LINK_PREFIX).is_some_and(|letters| {
        letters.len() == unique_letters().len() && letters.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    if !is_ours || !link_exists() {
        return Outcome::NotThere;
    }
    let mut ip = Command::new("ip");
    let done = command::run(ip.args(["link", "delete", "dev", name]).stdin(Stdio::null()), "remove a link");
    match done {
        // If its other end has gone with the server, the kernel is about to remove it.
        Err(_) if !link_exists() => Outcome::Undone,
        Err(error) => Outcome::Leftover(error.cause),
        Ok(_) => Outcome::Undone,
    }
}

/// Four addresses of the range that no router forwards. The two in the middle are for the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Subnet(u32);

impl Subnet {
    /// 169.254.0.0. The first and the last 256 addresses of the range are reserved.
    const RANGE: u32 = 0xa9fe_0000;
    const COUNT: u32 = (0xff00 - 0x0100) / 4;
    /// Addresses of the metadata services of clouds; they need no separate route.
    const METADATA_ADDRESSES: u32 = 0xa9fe_a9fc;

    /// Returns a subnet without a route. The search starts at the PID, as other rigs may search at the same time.
    fn choose() -> Result<Self, UserError> {
        let routes = fs::read_to_string("/proc/net/route").unwrap_or_default();
        let routes = parse_routes(&routes);
        let first = std::process::id();
        let mut subnets = (0..Self::COUNT).map(|step| Self::from_number(first.wrapping_add(step)));
        subnets.find(|subnet| subnet.is_free(&routes)).ok_or_else(|| {
            UserError::new("find addresses for a network", "all of 169.254.0.0/16 is in use")
                .help("remove leftover routes to it: `ip route`")
        })
    }

    fn from_number(number: u32) -> Self {
        Self(Self::RANGE + 0x0100 + number % Self::COUNT * 4)
    }

    /// Returns true if no route leads into it, except those to everything or to all of the range.
    fn is_free(self, routes: &[(u32, u32)]) -> bool {
        let leads_here = |(to, mask): &(u32, u32)| {
            let both = mask & 0xffff_fffc;
            mask.count_ones() > 16 && to & both == self.0 & both
        };
        self.0 != Self::METADATA_ADDRESSES && !routes.iter().any(leads_here)
    }

    fn local_address(self) -> std::net::Ipv4Addr {
        (self.0 + 1).into()
    }

    fn peer_address(self) -> std::net::Ipv4Addr {
        (self.0 + 2).into()
    }
}

/// Targets and masks of the lines of `/proc/net/route`, which shows them in the byte order of memory.
fn parse_routes(text: &str) -> Vec<(u32, u32)> {
    let address = |word: Option<&str>| u32::from_str_radix(word?, 16).ok().map(u32::from_be);
    let route = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        Some((address(words.nth(1))?, address(words.nth(5))?))
    };
    text.lines().filter_map(route).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnet_with_route_or_reserved_is_not_free() {
        let head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n";
        let lines = [
            "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\n",
            "eth0\t0000FEA9\t00000000\t0001\t0\t0\t0\t0000FFFF\n",
            "eth1\t0401FEA9\t00000000\t0001\t0\t0\t0\tFCFFFFFF\n",
        ];
        let routes = parse_routes(&[head, &lines.concat()].concat());
        assert_eq!(routes, [(0, 0), (0xa9fe_0000, 0xffff_0000), (0xa9fe_0104, 0xffff_fffc)]);
        let [first, second] = [0, 1].map(Subnet::from_number);
        assert_eq!(
            (first.local_address().to_string(), first.peer_address().to_string()),
            ("169.254.1.1".into(), "169.254.1.2".into())
        );
        assert!(first.is_free(&routes) && !second.is_free(&routes));
        // A route to one address of the subnet, or to a larger range.
        assert!(
            !first.is_free(&[(0xa9fe_0102, 0xffff_ffff)]) && !first.is_free(&[(0xa9fe_0100, 0xffff_ff00)])
        );
        assert!(!Subnet(Subnet::METADATA_ADDRESSES).is_free(&[]));
        let last = Subnet::from_number(Subnet::COUNT - 1);
        assert_eq!(
            (last.peer_address().to_string(), Subnet::from_number(Subnet::COUNT)),
            ("169.254.254.254".into(), first)
        );
    }

    #[test]
    fn network_devices_not_created_by_rig_are_kept() {
        for name in ["lo", "skye-", "skye-1234567", "skye-12345678x", "skye-1234/678", "skye-12345678"] {
            assert_eq!(remove_link(name), Outcome::NotThere, "{name}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_route_text_parses_without_panic(text: String) {
            parse_routes(&text);
        }
    }
}
