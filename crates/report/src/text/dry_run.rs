//! The plan as a preset file, with its costs as comments.

use model::plan::{Plan, ROUNDS_MIN};
use model::run::Environment;
use model::workload::Engine;
use model::{PlannedPhase, size, spec};

use super::preamble::facts;
use super::wrap::allow_breaks;
use crate::numbers::{duration, percent, thousands};

/// The plan as TOML that reads back as the same request. Comments say where it would run and what it would cost.
pub fn dry_run(plan: &Plan, environment: &Environment) -> String {
    // The ID of a device that is erased is no part of the file: it must be typed each time.
    let place = if environment.target.erased.is_some() { "DEVICE --erase ID" } else { "DIR" };
    let mut text = format!("# Dry run. Save this and run it with: skye run {place} --preset FILE.toml\n#\n");
    // All text in the comments went through `printable`, so none of it can end its line.
    for (name, fact) in facts(plan, environment) {
        text.push_str(format!("# {name:<8} {}", allow_breaks(&fact)).trim_end());
        text.push('\n');
    }
    text.push_str(&format!(
        "{}# limits   ends after {} at the latest, writes {} of data at most (allowed: {}){}\n#\n",
        plan.precision_goal.map_or(String::new(), |until| format!(
            "# until    each rate is steady and known within ± {}\n",
            percent(until.precision)
        )),
        duration(plan.total_ns),
        size::decimal(plan.all_clients_bytes_max()),
        size::decimal(plan.write_limit_bytes),
        if plan.clients.is_some() { ", by all clients together" } else { "" }
    ));
    let mut last = None;
    for fill in plan.precondition.iter().flat_map(|precondition| &precondition.fills) {
        let purged =
            if plan.precondition.as_ref().is_some_and(|all| all.has_purge) { ", after a purge" } else { "" };
        text.push_str(&format!(
            "# {:<14} {}{}{purged}\n",
            fill.id,
            spec::print(&fill.workload),
            engine_clause(fill)
        ));
    }
    for phase in &plan.phases {
        // An empty comment line separates a sweep from the rest.
        if last.is_some_and(|last| last != &phase.group) {
            text.push_str("#\n");
        }
        last = Some(&phase.group);
        let what = format!("{} {}", spec::print(&phase.workload), until(plan, phase));
        text.push_str(&format!("# {:<14} {}{}\n", phase.id, what.trim_end(), engine_clause(phase)));
    }
    text.push('\n');
    text.push_str(&plan.to_request().to_toml());
    text
}

/// Limits at which the phase ends, whichever comes first: "for 10 s or 6 GB".
fn until(plan: &Plan, phase: &PlannedPhase) -> String {
    let stop = phase.stop;
    let limits = [
        stop.time_ns.map(|longest| match (plan.precision_goal_of(phase), plan.rounds_of(phase)) {
            (_, Some((round_ns, most))) => format!("{ROUNDS_MIN} to {most} rounds of {}", duration(round_ns)),
            (Some(until), None) if until.time_min_ns < longest => {
                format!("{} to {}", duration(until.time_min_ns), duration(longest))
            }
            _ => duration(longest),
        }),
        stop.ops.map(|ops| format!("{} operations", thousands(ops))),
        stop.bytes.map(size::decimal),
        stop.passes.map(
            |passes| if passes == 1 { "1 pass".into() } else { format!("{} passes", thousands(passes)) },
        ),
    ];
    let limits: Vec<_> = limits.into_iter().flatten().collect();
    if limits.is_empty() { String::new() } else { format!("for {}", limits.join(" or ")) }
}

/// The engine, unless it is the default or in the spec, and the replaced test:
/// ", engine uring", ", in place of read:q8".
fn engine_clause(phase: &PlannedPhase) -> String {
    let names_engine = phase.workload.data().is_some_and(|data| data.engine.is_some());
    let mut text = String::new();
    if phase.engine != Engine::Sync && !names_engine {
        text.push_str(&format!(", engine {}", phase.engine));
    }
    if let Some(asked) = &phase.replaced_workload {
        text.push_str(&format!(", in place of {}", spec::print(asked)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use model::{Request, Target, plan, workload::CacheMode};
    use proptest::prelude::*;

    #[test]
    fn dry_run_of_standard_preset() {
        let (plan, environment) = sample::plan_for(sample::disk());
        insta::assert_snapshot!(dry_run(&plan, &environment));
    }

    #[test]
    fn fills_and_rounds_are_announced() {
        let request = Request {
            tests: vec!["write:rnd4k:q32".into()],
            time: Some(model::request::Seconds(10.0)),
            precondition: Some(model::request::Preconditioning::Purge),
            ..Request::default()
        };
        let plan = plan::plan(&request, &sample::disk(), &sample::machine()).unwrap();
        let text = dry_run(&plan, &sample::environment(sample::disk()));
        let fill = "\n# fill-1         write:seq128k:q32:passes=2, engine uring, after a purge\n";
        let rounds = "\n# 01-write       write:rnd4k:q32 for 5 to 25 rounds of 10 s or ";
        assert!(text.contains(fill) && text.contains(rounds), "{text}");
    }

    #[test]
    fn dry_run_of_sweep_without_io_uring() {
        let request = Request {
            tests: ["read:rnd4k", "write:seq1m:t2"].map(String::from).into(),
            sweep: Some("q1..q4".into()),
            ..Request::default()
        };
        let machine = model::Machine {
            io_uring_refused: Some("kernel.io_uring_disabled is 2".into()),
            ..sample::machine()
        };
        let plan = plan::plan(&request, &sample::disk(), &machine).unwrap();
        insta::assert_snapshot!(dry_run(&plan, &sample::environment(sample::disk())));
    }

    #[test]
    fn hostile_path_cannot_escape_its_comment() {
        let target = Target { path: "/mnt/a\nallow = [\"busy\"]\n#".into(), ..sample::disk() };
        let (plan, environment) = sample::plan_for(target);
        let text = dry_run(&plan, &environment);
        assert_eq!(Request::from_toml(&text), Ok(plan.to_request()), "{text}");
    }

    proptest! {
        #[test]
        fn dry_run_text_reads_back_as_same_request(
            label in proptest::option::of(any::<String>()),
            seed in proptest::option::of(any::<u64>()),
            mebibytes in proptest::option::of(128u64..16 << 10),
            seconds in 1u32..60,
            repeat in 1u32..3,
            buffered in any::<bool>(),
        ) {
            let request = Request {
                label,
                seed,
                size: mebibytes.map(|mebibytes| size::Size::Bytes(mebibytes << 20)),
                time: Some(model::request::Seconds(f64::from(seconds) / 8.0)),
                repeat: Some(repeat),
                direct: buffered.then_some(false),
                cache: Some(CacheMode::Warm),
                write_limit: Some(size::Size::Bytes(1 << 40)),
                ..sample::standard()
            };
            let plan = plan::plan(&request, &sample::disk(), &sample::machine()).unwrap();
            let environment = sample::environment(sample::disk());
            let text = dry_run(&plan, &environment);
            prop_assert_eq!(Request::from_toml(&text), Ok(plan.to_request()), "{}", text);
        }
    }
}
