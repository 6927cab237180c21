//! A guest of QEMU: another kernel that sees the files of this machine, and writes into one directory of it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use super::supplies::{KERNELS, Supplies};

/// Timeout for an idle guest to boot and shut down.
const BOOT: Duration = Duration::from_secs(120);
/// The same for a guest with hardware virtualisation. It hangs if the processor cannot run guests.
const BOOT_ON_PROCESSOR: Duration = Duration::from_secs(10);
/// Poll interval for the state of a guest.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum length of console output in an error.
const CONSOLE_MAX: usize = 4000;
/// Devices of NVMe that a guest has.
const DISKS: u64 = 4;
/// Disks of SATA that it has once its `ahci` is loaded.
const SATA_DISKS: u64 = 2;
/// Size of each.
pub const DISK_BYTES: u64 = 1 << 30;

/// Start of the script that a guest runs: everything that an administrator expects to be there.
const PREPARE: &str = r#"export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
rm -f /.dockerenv
for place in /dev/shm /tmp /run /mnt; do mount -t tmpfs tmpfs $place; done
mount -t cgroup2 cgroup /sys/fs/cgroup
mount -t debugfs debugfs /sys/kernel/debug
modprobe -q nvme
ip link set lo up
echo lab > /proc/sys/kernel/hostname
"#;
/// End of it: the guest turns itself off.
const END: &str = "\necho > /lab/ended\nsync\necho o > /proc/sysrq-trigger\nsleep 10\n";

/// A way in which QEMU runs the instructions of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accelerator {
    Kvm,
    Tcg,
}

impl Accelerator {
    /// Returns the best that works here, after starting a guest with it.
    fn here() -> Result<Self, String> {
        static FOUND: OnceLock<Result<Accelerator, String>> = OnceLock::new();
        FOUND.get_or_init(|| Self::find().map_err(|error| format!("{error:#}"))).clone()
    }

    fn find() -> Result<Self> {
        let supplies = Supplies::load(&KERNELS[0])?;
        // Known until this machine boots again: a processor that runs no guests costs a lot of time each time.
        let known = super::directory().join("accelerator");
        let boot =
            fs::read_to_string("/proc/sys/kernel/random/boot_id").context("read the ID of this boot")?;
        // A container that shares this directory may have no such device.
        let has_kvm = Path::new("/dev/kvm").exists();
        let entry = |accelerator: Self| format!("{} {has_kvm} {boot}", accelerator.argument());
        let found = fs::read_to_string(&known).unwrap_or_default();
        if let Some(accelerator) = [Self::Kvm, Self::Tcg].into_iter().find(|one| entry(*one) == found) {
            return Ok(accelerator);
        }
        let accelerator = Self::tried(&supplies)?;
        fs::write(&known, entry(accelerator)).with_context(|| format!("write {}", known.display()))?;
        Ok(accelerator)
    }

    fn tried(supplies: &Supplies) -> Result<Self> {
        let boots = |accelerator: Self, limit| {
            Guest::start(supplies, accelerator, super::scratch()?.path(), "", |_| Ok(()))?
                .wait(limit)
                .map(|_| accelerator)
        };
        if Path::new("/dev/kvm").exists() {
            let found = boots(Self::Kvm, BOOT_ON_PROCESSOR);
            if found.is_ok() {
                return found;
            }
        }
        boots(Self::Tcg, BOOT)
    }

    fn argument(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg,thread=multi",
        }
    }
}

/// Returns the reason if no guest can run here.
///
/// # Errors
/// The reason.
pub fn probe() -> Result<(), String> {
    Accelerator::here().map(drop)
}

/// A guest that runs. It ends when this value is dropped, or its owner killed.
#[derive(Debug)]
pub struct Guest {
    qemu: Child,
    home: TempDir,
}

impl Guest {
    /// Boots a guest that runs `script`. Its disks are files in the directory `disks`, and new where there are none.
    /// `fill` writes into the directory that is `/lab` in the guest.
    ///
    /// # Errors
    /// No guest can run here, or `fill` fails.
    pub fn boot(
        supplies: &Supplies,
        disks: &Path,
        script: &str,
        fill: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Self> {
        Self::start(supplies, Accelerator::here().map_err(anyhow::Error::msg)?, disks, script, fill)
    }

    fn start(
        supplies: &Supplies,
        accelerator: Accelerator,
        disks: &Path,
        script: &str,
        fill: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Self> {
        let home = super::scratch()?;
        let shared = home.path().join("lab");
        fs::create_dir(&shared)?;
        fs::write(shared.join("main"), format!("{PREPARE}{script}{END}"))?;
        fill(&shared)?;
        // Topmost first; this machine's own files are below all others.
        let layers = supplies.layers.iter().map(PathBuf::as_path).chain([Path::new("/")]);
        let layers: Vec<_> =
            layers.enumerate().map(|(number, path)| (format!("layer{number}"), path)).collect();
        let tags: Vec<_> = layers.iter().map(|(tag, _)| tag.as_str()).collect();

        // The kernel kills the guest with its owner. A guest has priority over all other programs, so that none of them
        // shows in its results; only root may set that.
        let mut qemu = Command::new("nice");
        qemu.args(["--adjustment=-20", "setpriv", "--pdeathsig", "KILL"]);
        qemu.args(["qemu-system-x86_64", "-accel", accelerator.argument()]);
        qemu.args([
            "-smp",
            "2",
            "-m",
            "2048",
            "-machine",
            "q35",
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
        ]);
        qemu.arg("-kernel").arg(&supplies.kernel).arg("-initrd").arg(&supplies.initramfs);
        // A kernel that panics ends at once. The timer is late on a machine that is busy, and no kernel should mind.
        qemu.arg("-append").arg(format!(
            "console=ttyS0 quiet panic=-1 no_timer_check nvme.poll_queues=1 \"layers={}\"",
            tags.join(" ")
        ));
        qemu.arg("-serial").arg(format!("file:{}", home.path().join("console").display()));
        for (tag, path) in &layers {
            share(&mut qemu, tag, path, ",readonly=on");
        }
        share(&mut qemu, "lab", &shared, "");
        for number in 0..DISKS + SATA_DISKS {
            let image = disks.join(format!("disk{number}"));
            File::options().append(true).create(true).open(&image)?.set_len(DISK_BYTES)?;
            let file = format!("file={},format=raw,if=none,id=disk{number},cache=unsafe", image.display());
            qemu.arg("-drive").arg(file);
            if let Some(port) = number.checked_sub(DISKS) {
                qemu.arg("-device")
                    .arg(format!("ide-hd,bus=ide.{port},drive=disk{number},serial=LAB{number}"));
                continue;
            }
            // A separate port gives a device a link with a speed.
            let port = format!("pcie-root-port,id=port{number},chassis={number},x-speed=8,x-width=4");
            let nvme = format!("nvme,drive=disk{number},serial=LAB{number},bus=port{number}");
            qemu.args(["-device", &port, "-device", &nvme]);
        }
        let messages = File::create(home.path().join("messages"))?;
        qemu.stdin(Stdio::null()).stdout(Stdio::null()).stderr(messages);
        let qemu = qemu.spawn().context("run setpriv and qemu-system-x86_64 (package qemu-system-x86)")?;
        Ok(Self { qemu, home })
    }

    /// Waits until the guest has turned itself off, and returns its directory. `lab` in it is what was shared.
    ///
    /// # Errors
    /// It did not within `limit`, or its script did not come to its end.
    pub fn wait(mut self, limit: Duration) -> Result<TempDir> {
        let start = Instant::now();
        while self.is_alive()? {
            if start.elapsed() > limit {
                bail!("a guest did not exit within {} s; {}", limit.as_secs(), self.last_output());
            }
            sleep(POLL_INTERVAL);
        }
        ensure!(self.shared().join("ended").exists(), "a guest exited too early; {}", self.last_output());
        self.cut()
    }

    /// Waits until the guest has made a file of that name in the shared directory.
    ///
    /// # Errors
    /// It did not within `limit`, or has ended.
    pub fn wait_for(&mut self, name: &str, limit: Duration) -> Result<()> {
        let start = Instant::now();
        while !self.shared().join(name).exists() {
            let is_late = start.elapsed() > limit || !self.is_alive()?;
            ensure!(
                !is_late,
                "a guest did not create {name} within {} s; {}",
                limit.as_secs(),
                self.last_output()
            );
            sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Directory that the guest and this machine share.
    pub fn shared(&self) -> PathBuf {
        self.home.path().join("lab")
    }

    /// Cuts the power, and returns the guest's directory. `lab` in it is what was shared.
    ///
    /// # Errors
    /// There is no room for another directory.
    pub fn cut(mut self) -> Result<TempDir> {
        self.end();
        let other = super::scratch()?;
        Ok(std::mem::replace(&mut self.home, other))
    }

    fn end(&mut self) {
        // Both fail if it has ended already.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }

    /// Returns false if QEMU has ended well.
    fn is_alive(&mut self) -> Result<bool> {
        let status = self.qemu.try_wait().context("wait for QEMU")?;
        if let Some(status) = status {
            ensure!(status.success(), "QEMU: {status}; {}", self.last_output());
        }
        Ok(status.is_none())
    }

    /// Last words of QEMU and of the guest.
    fn last_output(&self) -> String {
        let read = |name: &str| {
            let text = fs::read(self.home.path().join(name)).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            let skipped = text.chars().count().saturating_sub(CONSOLE_MAX);
            text.chars().skip(skipped).collect::<String>()
        };
        format!("QEMU printed {:?}, and the console ends with\n{}", read("messages"), read("console"))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.end();
    }
}

/// Gives a directory of this machine to the guest.
fn share(qemu: &mut Command, tag: &str, directory: &Path, more: &str) {
    let path = directory.display();
    qemu.arg("-virtfs")
        .arg(format!("local,path={path},mount_tag={tag},security_model=none,multidevs=remap{more}"));
}
