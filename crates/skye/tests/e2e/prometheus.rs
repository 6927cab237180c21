//! Metrics of runs, as the collector of Prometheus' node exporter reads them from one directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Command, Stdio};

use xtask::capability::promtool;

use crate::support::program::skye;
use crate::support::scratch;

#[test]
fn metrics_of_ten_runs_are_clean_together() {
    xtask::require!(promtool);
    let home = scratch(64 << 20);
    let (data, device) = (home.path().join("data"), home.path().join("device.toml"));
    fs::create_dir(&data).unwrap();
    fs::write(&device, "latency = { mean_us = 100 }\nparallelism = 4\n").unwrap();
    let simulated = format!("sim:{}", device.display());
    let directory = data.display().to_string();
    let short = "--size 1m --time 0.1 --allow low-space,busy --no-probe";
    for (number, (target, words)) in [
        (&simulated, "--test read:rnd4k:ops=2000".to_owned()),
        (&simulated, "--test read:rnd4k:ops=500 --sweep q1..q8 --label sweep".to_owned()),
        (&simulated, "--test read:rnd4k:ops=500 --repeat 3 --label repeated".to_owned()),
        (&simulated, "--test read:rnd4k:rate=500:ops=200 --label a\"b\\c".to_owned()),
        (&simulated, "--test read:rnd4k:ops=9 --test read:rnd4k:ops=9 --label twice".to_owned()),
        (&directory, format!("--test write:seq64k --test rw:rnd4k {short}")),
        (&directory, format!("--test create --test stat --test unlink --files 100 {short} --label files")),
        (&directory, format!("--test mix:mail:files=100 {short} --label mix")),
        (&directory, format!("--test byte-write {short} --label bytes")),
        (&directory, format!("--test write:seq64k:atomic --test stat {short} --files 100 --label failed")),
    ]
    .into_iter()
    .enumerate()
    {
        let file = home.path().join(format!("{number}.prom"));
        let program = skye().arg("run").arg(target).words(&words).arg("--openmetrics").arg(&file);
        program.arg("--quiet").run().did_not_panic();
        assert!(file.is_file(), "{words}");
    }
    let (mut series, mut help) = (BTreeSet::new(), BTreeMap::new());
    let mut is_failed = false;
    for number in 0..10 {
        let file = home.path().join(format!("{number}.prom"));
        let mut check = Command::new(promtool().unwrap());
        check.args(["check", "metrics"]).stdin(Stdio::from(fs::File::open(&file).unwrap()));
        let checked = check.output().unwrap();
        let text =
            String::from_utf8_lossy(&checked.stderr).into_owned() + &String::from_utf8_lossy(&checked.stdout);
        assert!(checked.status.success() && text.is_empty(), "{number}: {text}");
        for line in fs::read_to_string(&file).unwrap().lines() {
            if let Some((name, text)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
                let known = help.entry(name.to_owned()).or_insert_with(|| text.to_owned());
                assert_eq!(known, text, "{name}");
            } else if !line.starts_with('#') {
                let name = line.rsplit_once(' ').unwrap().0;
                assert!(series.insert(name.to_owned()), "{name} is there twice");
                is_failed |= line.starts_with("skye_run_success") && line.ends_with(" 0");
            }
        }
    }
    assert!(is_failed, "{series:#?}");
}
