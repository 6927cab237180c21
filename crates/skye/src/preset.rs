//! Presets: shipped inside the program, or read from a file of the same words.

use std::path::Path;

use model::request::{PRESETS, Request, preset_purpose};
use model::spec::{self, Defaults};
use model::workload::MixName;
use model::{Target, mix, nearest, plan};

use crate::exit::Failure;
use crate::inputs;

/// The preset that runs when none is named.
pub const DEFAULT: &str = "standard";

/// Returns the presets in this program, each with its request and its purpose.
pub fn shipped() -> impl Iterator<Item = (&'static str, Request, String)> {
    // A test parses them all.
    PRESETS.iter().filter_map(|(name, text)| Some((*name, parse(name, text).ok()?, preset_purpose(text))))
}

/// Applies the flags to the preset that they name, or to `default` if they name none. Tests without a named preset use
/// no preset.
///
/// # Errors
/// As [`load`].
pub fn apply_preset(mut flags: Request, default: &str) -> Result<Request, Failure> {
    // The preset's own name counts: it may come from a file.
    let mut request = match (flags.preset.take(), flags.tests.is_empty()) {
        (Some(name), _) => flags.over(load(&name)?),
        (None, true) => flags.over(load(default)?),
        (None, false) => flags,
    };
    read_mixes(&mut request)?;
    Ok(request)
}

/// Reads the mixes that tests take from files, where the request does not have their texts.
fn read_mixes(request: &mut Request) -> Result<(), Failure> {
    for spec in request.tests.iter().chain(&request.tests_where_possible) {
        let Some(path) = mix::file_of(spec).filter(|path| !request.mixes.0.contains_key(*path)) else {
            continue;
        };
        let text = inputs::read_text(Path::new(path), inputs::DESCRIPTION_BYTES_MAX).map_err(|error| {
            let mixes = MixName::FORM.replace('|', ", ");
            Failure::Refused(format!(
                "cannot read the mix of test `{spec}`: {path}: {error}; use a TOML file, or one of {mixes}"
            ))
        })?;
        request.mixes.0.insert(path.to_owned(), text);
    }
    Ok(())
}

/// Lays the flags over their preset, as [`apply_preset`] does. Of a preset, a device or a file has the tests that can be made
/// on it.
///
/// # Errors
/// As [`load`].
pub fn with_preset(flags: Request, default: &str, target: &Target) -> Result<Request, Failure> {
    let is_chosen = flags.tests.is_empty() && target.kind.is_existing();
    let request = apply_preset(flags, default)?;
    Ok(if is_chosen { plan::adapt_to_existing_target(request, target) } else { request })
}

/// Reads a preset by its name, or from a file if the name ends in `.toml` or contains a slash.
///
/// # Errors
/// An unknown name with the nearest known one, or a file with a mistake and its line.
pub fn load(name: &str) -> Result<Request, Failure> {
    if let Some((_, text)) = PRESETS.iter().find(|(shipped, _)| *shipped == name) {
        return parse(name, text);
    }
    if name.ends_with(".toml") || name.contains('/') {
        let text = inputs::read_text(Path::new(name), inputs::DESCRIPTION_BYTES_MAX).map_err(|error| {
            Failure::Refused(format!(
                "cannot read the preset {name}: {error}; use a TOML file, or one of {}",
                names()
            ))
        })?;
        return parse(name, &text);
    }
    let near = nearest(name, PRESETS.iter().map(|(shipped, _)| *shipped));
    let hint = near.map_or(format!("use one of {}", names()), |near| format!("did you mean `{near}`?"));
    Err(Failure::Refused(format!("cannot use the preset {name}: it does not exist; {hint}")))
}

fn parse(name: &str, text: &str) -> Result<Request, Failure> {
    let refused = |problem: String| Failure::Refused(format!("cannot read the preset {name}: {problem}"));
    let request = Request::from_toml(text).map_err(refused)?;
    if request.erase.is_some() || !request.erase_signature.is_empty() || request.erase_data.is_some() {
        let problem = "erasing a device requires its ID on the command line: add --erase there";
        return Err(refused(problem.into()));
    }
    for test in &request.tests {
        if let Err(error) = spec::parse(test, &Defaults::default()) {
            let line = 1 + text.lines().position(|line| line.contains(test.as_str())).unwrap_or(0);
            return Err(refused(format!("line {line}: {error}")));
        }
    }
    Ok(request)
}

fn names() -> String {
    PRESETS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use model::Machine;
    use model::plan::Plan;
    use model::target::{Backing, Geometry, Space, TargetKind};

    fn target() -> Target {
        Target {
            path: "/mnt".into(),
            kind: TargetKind::Directory,
            mount_point: "/mnt".into(),
            device_number: "252:1".into(),
            source: "/dev/sda1".into(),
            file_system: "ext4".into(),
            mount_options: vec![],
            read_only: false,
            is_writable_by_others: false,
            backing: Backing::Devices,
            geometry: Geometry::default(),
            space: Space {
                total_bytes: 900 << 30,
                free_bytes: 600 << 30,
                inodes_total: Some(1 << 30),
                inodes_free: Some(1 << 29),
            },
            direct_io: None,
            device_stack: vec![],
            notes: vec![],
            user_attributes: None,
            erased: None,
            layers: Vec::new(),
        }
    }

    fn machine() -> Machine {
        Machine {
            host: "ada".into(),
            kernel: "Linux 6.12".into(),
            cpu_model: None,
            cpus: 8,
            cpus_online: 8,
            memory_bytes: 16 << 30,
            memory_total_bytes: 16 << 30,
            virtualisation: None,
            clock_source: None,
            is_root: true,
            lockable_bytes: None,
            open_files_max: None,
            file_bytes_max: None,
            io_uring_refused: None,
        }
    }

    /// The plan of a command line, and the plan of the TOML that its dry run prints.
    fn plan_and_replay(line: &str) -> Result<(Plan, Plan), String> {
        let words = crate::cli::with_default_command(
            line.split_whitespace().map(Into::into).collect(),
            &crate::first_steps::command(),
        );
        let cli = crate::cli::Cli::try_parse_from(words).map_err(|error| error.to_string())?;
        let crate::cli::Command::Run(arguments) = cli.command else { return Err("not a run".into()) };
        let request = with_preset(arguments.request(), DEFAULT, &target());
        let request = request.map_err(|failure| format!("{failure:?}"))?;
        let plan =
            |request: &Request| plan::plan(request, &target(), &machine()).map_err(|error| error.to_string());
        let first = plan(&request)?;
        let again = Request::from_toml(&first.to_request().to_toml())?;
        let second = plan(&again)?;
        Ok((first, second))
    }

    #[test]
    fn dry_run_output_reproduces_its_plan() {
        for (name, _) in PRESETS {
            let (first, second) = plan_and_replay(&format!("skye --preset {name}")).unwrap();
            assert_eq!(first, second, "{name}");
        }
        let mut random = fastrand::Rng::with_seed(20_261_121);
        let mut planned = 0;
        while planned < 200 {
            let line = random_line(&mut random);
            match plan_and_replay(&line) {
                Ok((first, second)) => assert_eq!(first, second, "{line}"),
                // A refused set of flags has no plan, but the refusal must have a good reason.
                Err(problem) => {
                    let good = [
                        "stay within",
                        "too small",
                        "no test can be repeated until its rate is steady",
                        "drop --cold",
                        "--cold drops all caches",
                    ];
                    assert!(good.iter().any(|reason| problem.contains(reason)), "{line}: {problem}");
                    continue;
                }
            }
            planned += 1;
        }
    }

    fn random_line(random: &mut fastrand::Rng) -> String {
        let what = [
            "",
            "--preset quick",
            "--preset standard",
            "--preset rigorous",
            "--preset classic",
            "--preset disk",
            "--preset peak",
            "--preset names",
            "--test read:rnd4k:q32t4",
            "--test rw:rnd16k:q4:read=70 --test create:t3:files=10k:size=0..64k:dirs=30:levels=2",
            "--test write:seq512k:t3:shared --test read:seq512k:t3 --test rename:t2:order=rnd",
            "--test fsync:ops=1000 --test write:passes=2 --test stat:cold --cache drop-all",
            "--test rewrite:seq128k:bytes=1g --test unlink:missing --test symlink:tN",
        ];
        let what = random.choice(what).unwrap_or_default();
        let mut line = format!("skye {what}");
        for option in Request::OPTIONS {
            let example = random.choice(option.examples).copied().unwrap_or_default();
            let is_present = example.split(' ').next().is_some_and(|flag| what.contains(flag));
            if random.u32(0..3) == 0 && !is_present {
                line.push(' ');
                line.push_str(example);
            }
        }
        line
    }

    #[test]
    fn unknown_preset_name_gets_a_hint() {
        let refused = |name: &str| match load(name) {
            Err(Failure::Refused(message)) => message,
            other => panic!("{other:?}"),
        };
        assert!(refused("standart").ends_with("did you mean `standard`?"));
        assert!(refused("zzz").ends_with(
            "use one of quick, standard, rigorous, classic, disk, peak, bytes, zones, io500-shapes, ssd, names, files"
        ));
        let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
        std::fs::write(file.path(), "tests = [\"write\"]\nerase = \"1073741824\"\n").unwrap();
        assert!(refused(file.path().to_str().unwrap()).ends_with("on the command line: add --erase there"));
        assert!(refused("/no/such.toml").starts_with("cannot read the preset /no/such.toml: No such file"));
    }
}
