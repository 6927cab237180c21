//! Tries of all artefacts as a user would: install, measure, remove, in fresh roots without a compiler.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::archive::sha256_of;
use super::program::{Arch, GLIBC};
use super::roots::{self, DATA, ENTERING, ENTERING_WORDS, Root, ensure_same};
use super::tools::{Tools, output, run};
use super::{Artefacts, Kind};

/// Releases of Debian, and their glibc.
const DEBIAN: &[(&str, &str)] = &[("bullseye", "2.31"), ("bookworm", "2.36"), ("trixie", "2.41")];
/// Most time from the artefact to the first answer.
const ANSWER: Duration = Duration::from_secs(60);
/// A user without a name, as clusters choose them.
const UNKNOWN_USER: u32 = 12345;

/// Outcome of a try.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It went well, in this time.
    Passed(Option<Duration>),
    /// It went wrong.
    Failed(String),
    /// It cannot be tried here.
    Untried(String),
}

/// A try of an artefact.
#[derive(Debug)]
pub(super) struct Try {
    /// Artefact and use.
    pub what: String,
    /// Its outcome.
    pub outcome: Outcome,
}

/// Place and artefacts of all tries.
struct Tries<'a> {
    tools: &'a Tools,
    below: &'a Path,
    artefacts: &'a Artefacts,
    done: Vec<Try>,
}

/// Tries all artefacts, in roots below a directory.
pub(super) fn all(tools: &Tools, below: &Path, artefacts: &Artefacts) -> Vec<Try> {
    let mut tries = Tries { tools, below, artefacts, done: Vec::new() };
    let (arch, is_ours) = (artefacts.arch.as_str(), artefacts.arch.is_ours());
    let [_, fixed] = &artefacts.programs;
    let runs = is_ours
        || Command::new(&fixed.path).arg("--version").output().is_ok_and(|output| output.status.success());
    let refusal = match runs {
        true => roots::refusal(),
        false => {
            Some(format!("this machine runs no programs for {arch}: see qemu-user-static and binfmt_misc"))
        }
    };
    if let Some(why) = refusal {
        tries.untried("all artefacts", why);
        return tries.done;
    }
    match is_ours {
        true => tries.in_debian(),
        false => {
            tries.untried("packages and the dynamic program", format!("no root for {arch} is made here"))
        }
    }
    tries.add("static program in an empty root: quick run".into(), Tries::statically);
    tries.add("static program in an empty root: bonnie++ -u NAME, from /etc/passwd".into(), Tries::as_user);
    tries.add("static program under mpirun: a refusal by name".into(), Tries::under_mpirun);
    tries.add(format!("image as user {UNKNOWN_USER} on a read-only root: quick run"), Tries::image);
    tries.done
}

impl Tries<'_> {
    fn untried(&mut self, what: &str, why: String) {
        self.done.push(Try { what: what.into(), outcome: Outcome::Untried(why) });
    }

    fn add(&mut self, what: String, run: impl FnOnce(&Self) -> Result<Option<Duration>>) {
        eprintln!("dist: tries {what}");
        let outcome = match run(self) {
            Ok(Some(time)) if time > ANSWER => {
                Outcome::Failed(format!("{:.1} s until the first answer", time.as_secs_f64()))
            }
            Ok(time) => Outcome::Passed(time),
            Err(error) => Outcome::Failed(format!("{error:#}")),
        };
        self.done.push(Try { what, outcome });
    }

    /// Tries the packages and the dynamic program.
    fn in_debian(&mut self) {
        for (release, glibc) in DEBIAN {
            let what = format!(".deb in Debian {release}: install, quick run, remove");
            self.add(what, |tries| tries.deb(release, glibc));
        }
        let (oldest, glibc) = DEBIAN[0];
        self.add(format!("dynamic program in Debian {oldest}: unpack, quick run"), |tries| {
            tries.dynamic(oldest, glibc)
        });
        self.untried(
            &format!("dynamic program with glibc {}.{} itself", GLIBC.0, GLIBC.1),
            "no registry here has so old a system; the versions of its symbols are checked instead".into(),
        );
        match Command::new("rpm").arg("--version").stdout(Stdio::null()).status() {
            Ok(_) => self
                .add(".rpm by rpm --root in Debian bookworm: install, quick run, erase".into(), Tries::rpm),
            Err(_) => self.untried(".rpm", "the program rpm is missing: apt-get install rpm".into()),
        }
        self.untried(".rpm in Fedora or RHEL", "no registry here has such a system".into());
    }

    fn deb(&self, release: &str, glibc: &str) -> Result<Option<Duration>> {
        let root = Root::debian(self.tools, self.below, release)?;
        let before = root.files()?;
        let start = Instant::now();
        fs::copy(self.artefacts.path(Kind::Deb)?, root.data().join("skye.deb"))
            .context("copy the package")?;
        quietly(root.command(&["dpkg", "--install", "/data/skye.deb"]))?;
        let library = quick_run(&root, "skye")?;
        let time = start.elapsed();
        ensure!(library == format!("glibc {glibc}"), "the document has the C library {library}");
        let page = root.path().join("usr/share/man/man1/skye-run.1.gz");
        ensure!(page.exists(), "the package has no manual page of `skye run`");
        quietly(root.command(&["dpkg", "--purge", "skye"]))?;
        ensure_same(&before, &root.files()?)?;
        Ok(Some(time))
    }

    fn rpm(&self) -> Result<Option<Duration>> {
        let package = self.artefacts.path(Kind::Rpm)?;
        let needs = output(Command::new("rpm").args(["-qp", "--requires"]).arg(package))?;
        let glibc = format!("glibc >= {}.{}", GLIBC.0, GLIBC.1);
        ensure!(needs.lines().any(|line| line == glibc), "the package requires {needs}");
        let root = Root::debian(self.tools, self.below, "bookworm")?;
        let before = root.files()?;
        let rpm = |words: &[&str]| {
            let mut rpm = Command::new("rpm");
            rpm.arg("--root").arg(root.path()).args(["--dbpath", "/var/lib/rpm"]).args(words);
            rpm
        };
        let start = Instant::now();
        quietly(rpm(&["--initdb"]))?;
        // Debian's packages are not in the database of rpm.
        let mut install = rpm(&["--install", "--nodeps"]);
        install.arg(package);
        quietly(install)?;
        quick_run(&root, "skye")?;
        let time = start.elapsed();
        quietly(rpm(&["--erase", "skye"]))?;
        ensure_same(&before, &root.files()?)?;
        Ok(Some(time))
    }

    fn dynamic(&self, release: &str, glibc: &str) -> Result<Option<Duration>> {
        let root = Root::debian(self.tools, self.below, release)?;
        let start = Instant::now();
        self.unpack(Kind::Dynamic, &root.path().join("opt"))?;
        let library = quick_run(&root, &format!("/opt/{}/skye", self.artefacts.directory(Kind::Dynamic)))?;
        ensure!(library == format!("glibc {glibc}"), "the document has the C library {library}");
        Ok(Some(start.elapsed()))
    }

    /// Returns an empty root with the static program.
    fn static_root(&self) -> Result<Root> {
        let root = Root::empty(self.below)?;
        let archive = tempfile::tempdir_in(self.below).context("make a directory")?;
        self.unpack(Kind::Static, archive.path())?;
        let program = archive.path().join(self.artefacts.directory(Kind::Static)).join("skye");
        fs::copy(program, root.path().join("skye")).context("copy the program")?;
        Ok(root)
    }

    fn statically(&self) -> Result<Option<Duration>> {
        let start = Instant::now();
        let root = self.static_root()?;
        let library = quick_run(&root, "/skye")?;
        ensure!(library.starts_with("static "), "the document has the C library {library}");
        Ok(Some(start.elapsed()))
    }

    fn as_user(&self) -> Result<Option<Duration>> {
        let root = self.static_root()?;
        fs::create_dir(root.path().join("etc")).context("make /etc")?;
        fs::write(root.path().join("etc/passwd"), "ada:x:4711:4712::/:/skye\n").context("write a file")?;
        fs::write(root.path().join("etc/group"), "engines:x:4712:\n").context("write a file")?;
        let bench = root.data().join("bench");
        fs::create_dir(&bench).context("make a directory")?;
        chown(&bench, Some(4711), Some(4712)).context("give a directory away")?;
        let bench = format!("{DATA}/bench");
        let run = |names: &[&str]| {
            let test = ["/skye", "bonnie++", "-d", &bench, "-s", "2m", "-r", "1", "-n", "0"];
            root.command(&[&test, names].concat())
        };
        quietly(run(&["-u", "ada"]))?;
        quietly(run(&["-u", "4711", "-g", "engines"]))?;
        refuses(run(&["-u", "bob"]), "a name in /etc/passwd")?;
        Ok(None)
    }

    fn under_mpirun(&self) -> Result<Option<Duration>> {
        let root = self.static_root()?;
        fs::create_dir(root.data().join("bench")).context("make a directory")?;
        let mut command = root.command(&["/skye", "run", "/data/bench"]);
        command.env("OMPI_COMM_WORLD_RANK", "0").env("OMPI_COMM_WORLD_SIZE", "2");
        refuses(command, "this is the static program, which cannot load an MPI library")?;
        Ok(None)
    }

    fn image(&self) -> Result<Option<Duration>> {
        let start = Instant::now();
        let image = fs::read(self.artefacts.path(Kind::Image)?).context("read the image")?;
        let root = Root::empty(self.below)?.read_only_as(UNKNOWN_USER)?;
        let entry = unpack_image(&image, self.artefacts.arch, root.path())?;
        quick_run(&root, &entry)?;
        Ok(Some(start.elapsed()))
    }

    fn unpack(&self, kind: Kind, to: &Path) -> Result<()> {
        let packed = fs::read(self.artefacts.path(kind)?).context("read an archive")?;
        tar::Archive::new(self.tools.unzstd(&packed)?.as_slice()).unpack(to).context("unpack an archive")
    }
}

/// Runs the quick preset in a directory, and returns the C library that the document has.
fn quick_run(root: &Root, program: &str) -> Result<String> {
    let bench = root.data().join("bench");
    fs::create_dir_all(&bench).context("make a directory")?;
    let owner =
        std::os::unix::fs::MetadataExt::uid(&fs::metadata(root.data()).context("look at a directory")?);
    chown(&bench, Some(owner), Some(owner)).context("give a directory away")?;
    quietly(root.command(&[program, "run", "/data/bench", "--preset", "quick", "--json", "/data/run.json"]))?;
    let left = fs::read_dir(&bench).context("list a directory")?.count();
    ensure!(left == 0, "the run left {left} files");
    let document = fs::read_to_string(root.data().join("run.json")).context("read the document")?;
    let document: Value = serde_json::from_str(&document).context("read the document")?;
    ensure!(document["run_status"] == "complete", "the run is {}", document["run_status"]);
    Ok(document["skye_libc"].as_str().unwrap_or("none").to_owned())
}

/// Runs a command whose output matters only if it fails.
fn quietly(mut command: Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("run {command:?}"))?;
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    ensure!(output.status.success(), "{}: {}\n{stdout}{stderr}", words(&command).join(" "), output.status);
    Ok(())
}

/// Returns the words of a command, without those that enter a root.
fn words(command: &Command) -> Vec<Cow<'_, str>> {
    let words = || std::iter::once(command.get_program()).chain(command.get_args());
    let entering = words().position(|word| word == ENTERING).map_or(0, |at| at + 1 + ENTERING_WORDS);
    words().skip(entering).map(OsStr::to_string_lossy).collect()
}

/// Runs a command that must fail with this text.
fn refuses(mut command: Command, text: &str) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("run {command:?}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        !output.status.success() && stderr.contains(text),
        "{}, instead of `{text}`: {stderr}",
        output.status
    );
    Ok(())
}

/// Unpacks an image as runtimes do, with all sums checked. Returns its entry point.
fn unpack_image(image: &[u8], arch: Arch, to: &Path) -> Result<String> {
    let file = |name: &str| -> Result<Vec<u8>> {
        let mut archive = tar::Archive::new(image);
        for entry in archive.entries().context("read the image")? {
            let mut entry = entry.context("read the image")?;
            if entry.path().context("read the image")? == Path::new(name) {
                let mut content = Vec::new();
                entry.read_to_end(&mut content).context("read the image")?;
                return Ok(content);
            }
        }
        bail!("the image has no {name}")
    };
    let blob = |descriptor: &Value| -> Result<Vec<u8>> {
        let digest = descriptor["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:"));
        let digest = digest.context("a digest")?;
        let content = file(&format!("blobs/sha256/{digest}"))?;
        ensure!(sha256_of(&content)? == digest, "a blob of the image has another sum than {digest}");
        Ok(content)
    };
    let parsed = |bytes: Vec<u8>| serde_json::from_slice::<Value>(&bytes).context("read the image");
    let index = parsed(file("index.json")?)?;
    let manifest = parsed(blob(&index["manifests"][0])?)?;
    let config = parsed(blob(&manifest["config"])?)?;
    ensure!(config["architecture"] == arch.debian(), "the image is for {}", config["architecture"]);
    for layer in manifest["layers"].as_array().context("layers")? {
        let packed = blob(layer)?;
        tar::Archive::new(flate2::read::GzDecoder::new(packed.as_slice()))
            .unpack(to)
            .context("unpack a layer")?;
    }
    config["config"]["Entrypoint"][0].as_str().map(String::from).context("an entry point")
}

/// Removes the directory of all tries.
///
/// # Errors
/// It has mounts, or a file cannot be removed.
pub(super) fn remove(below: &Path) -> Result<()> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("read the mounts")?;
    ensure!(!mounts.contains(&*below.to_string_lossy()), "mounts are left below {}", below.display());
    run(Command::new("rm").args(["-rf", "--one-file-system"]).arg(below))
}
