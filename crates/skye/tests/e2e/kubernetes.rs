//! The manifests of `deploy/`: the command line of each container, with the rights that it has there.

use xtask::deploy::{self, Container};

use crate::support::program::{Output, Skye, parse_document, phases, skye};

/// Runs a program as a container does: volumes in memory below `/mnt`, all other files read-only, no capability, and no
/// environment. Its first argument is the user. The volumes follow up to `--`, then program and arguments.
const CONTAINER: &str = r#"
user=$1
shift
mount -t tmpfs -o size=1g tmpfs /mnt || exit 99
while [ "$1" != -- ]; do
    mkdir "$1" && chown "$user:$user" "$1" || exit 99
    shift
done
cp "$2" /mnt/skye || exit 99
shift 2
for place in $(awk '$2 !~ "^/(proc|sys|dev|mnt)(/|$)" { print $2 }' /proc/self/mounts); do
    # A mount of another test ends with the removal of its directory.
    why=$(mount -o remount,bind,ro "$place" 2>&1) || ! mountpoint -q "$place" || { echo "$why" >&2; exit 99; }
done
cd /
rights="--clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all --ambient-caps=-all"
exec env -i setpriv --reuid "$user" --regid "$user" $rights /mnt/skye "$@"
"#;

/// Returns the container of a manifest.
fn container(name: &str) -> Container {
    deploy::container(&xtask::root().join("deploy").join(name)).unwrap()
}

/// Returns the program with these arguments, in the container.
fn inside(container: &Container, arguments: &[String]) -> Skye {
    let user = container.user.to_string();
    let volumes = container.mounts.iter().map(|path| path.to_str().unwrap());
    let mut words = vec!["--mount", "--propagation", "private", "sh", "-c", CONTAINER, "sh", &user];
    words.extend(volumes.chain(["--"]));
    arguments.iter().fold(skye(), Skye::arg).through("unshare", &words)
}

/// Runs the container of a manifest with its arguments and further ones.
fn run(name: &str, further: &[&str]) -> Output {
    let container = container(name);
    let further = further.iter().map(|word| (*word).to_owned());
    let arguments: Vec<_> = container.arguments.iter().cloned().chain(further).collect();
    inside(&container, &arguments).run().did_not_panic()
}

#[test]
fn job_measures_as_foreign_user_without_writable_root() {
    xtask::require!(root);
    let output = run("run.yaml", xtask::sized(&["--time", "0.1"], &[])).exits(5);
    // The log of a pod has both streams.
    assert_eq!(output.stderr, "");
    let run = parse_document(&output.stdout);
    // Rows in memory are invalid, and `--strict` makes that the exit code.
    let invalid = "memory_target";
    let rows = run["phases"].as_array().unwrap();
    let is_invalid =
        |row: &serde_json::Value| row["notes"].as_array().unwrap().iter().any(|it| it["code"] == invalid);
    assert!(rows.len() == 9 && rows.iter().all(is_invalid), "{:?}", phases(&run));
    assert!(phases(&run).iter().all(|(_, status)| *status == "done"), "{:?}", phases(&run));
    assert_eq!(run["environment"]["is_root"], false);
}

#[test]
fn comparison_is_planned_with_arguments_of_job() {
    xtask::require!(root);
    run("compare.yaml", &["--dry-run"]).exits(0);
}

#[test]
#[ignore = "long"]
fn comparison_of_volumes_is_a_gate() {
    xtask::require!(root);
    let mut container = container("compare.yaml");
    // A comparison takes as long as it may.
    let total = container.arguments.iter_mut().find(|word| word.starts_with("--total=")).unwrap();
    *total = String::from("--total=20s");
    container.arguments.push(String::from("--time=0.1"));
    let output = inside(&container, &container.arguments).run().did_not_panic();
    // Both volumes are alike, but chance decides now and then.
    assert!([Some(0), Some(4)].contains(&output.code), "{output}");
    output.output_contains(&["write 1M q8", "read 4K rnd q32", "fsync 4K rnd q1"]);
}

#[test]
fn pod_of_fleet_waits_for_a_coordinator() {
    xtask::require!(root);
    run("fleet.yaml", &[]).exits(2).stderr_contains(&["stdin ended before a coordinator sent a message"]);
}
