//! Manifests for Kubernetes in `deploy/`: their containers, as tests run them, and `cargo xtask deploy --check`.
//!
//! The command decodes the manifests with the types of Kubernetes' own API, which are in Go. The same types in Rust take
//! 20 s to compile, so it is no test.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use yaml_rust2::{Yaml, YamlLoader};

use crate::Usage;

const USAGE: &str = "use `deploy --check`";
/// Go module that decodes the manifests.
const MODULE: &[(&str, &str)] =
    &[("go.mod", include_str!("deploy/go.mod")), ("strict.go", include_str!("deploy/strict.go"))];
/// Program of the image. It has no shell, so a command of a manifest can be nothing else.
const IMAGE: &str = "skye";

/// A container of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// Words behind the name of the program.
    pub arguments: Vec<String>,
    /// Places of its volumes.
    pub mounts: Vec<PathBuf>,
    /// User that it runs as.
    pub user: u32,
}

/// Returns the paths of all manifests.
///
/// # Errors
/// The directory cannot be read.
pub fn manifests() -> Result<Vec<PathBuf>> {
    let home = crate::root().join("deploy");
    let entries = fs::read_dir(&home).with_context(|| format!("read {}", home.display()))?;
    let mut paths: Vec<_> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.sort();
    Ok(paths)
}

/// Returns the one container of a manifest.
///
/// # Errors
/// The manifest is invalid, or its container may do more than a benchmark needs.
pub fn container(path: &Path) -> Result<Container> {
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    read(&text).with_context(|| format!("check {}", path.display()))
}

fn read(text: &str) -> Result<Container> {
    let documents = YamlLoader::load_from_str(text).context("understand it as YAML")?;
    let pods = documents.iter().filter(|document| !document["spec"]["template"].is_badvalue());
    let pods: Vec<_> = pods.collect();
    let [workload] = pods[..] else { anyhow::bail!("it has {} workloads, expected one", pods.len()) };
    let pod = &workload["spec"]["template"]["spec"];
    let [container] = items(&pod["containers"]) else { anyhow::bail!("its pod has not one container") };
    ensure!(
        container["command"].is_badvalue(),
        "it replaces the entry point, and the image has no other program"
    );
    let image = container["image"].as_str().unwrap_or_default();
    let version = format!("{IMAGE}:{}", env!("CARGO_PKG_VERSION"));
    ensure!(image == version, "its image is {image}, expected {version}");
    let user = pod["securityContext"]["runAsUser"].as_i64().and_then(|user| u32::try_from(user).ok());
    restricted(pod, container)?;
    let claims = claims(&documents, workload, pod);
    let mounts = items(&container["volumeMounts"]).iter().map(|mount| {
        let name = mount["name"].as_str().unwrap_or_default();
        let claim =
            claims.get(name).with_context(|| format!("the volume {name} is no claim of this file"))?;
        ensure!(claim["resources"]["requests"]["storage"].as_str() == Some("1Gi"), "{name} is not of 1 GiB");
        Ok(PathBuf::from(mount["mountPath"].as_str().context("a mount has no path")?))
    });
    let mounts = mounts.collect::<Result<Vec<_>>>()?;
    let arguments = items(&container["args"]).iter().map(|word| word.as_str().map(str::to_owned));
    let arguments = arguments.collect::<Option<Vec<_>>>().context("an argument is not a text")?;
    Ok(Container { arguments, mounts, user: user.context("it names no user")? })
}

/// Checks that the pod has no more rights than a run without privileges needs.
fn restricted(pod: &Yaml, container: &Yaml) -> Result<()> {
    let (of_pod, of_container) = (&pod["securityContext"], &container["securityContext"]);
    let user = of_pod["runAsUser"].as_i64().unwrap_or_default();
    ensure!(of_pod["runAsNonRoot"].as_bool() == Some(true) && user > 0, "its user may be root");
    ensure!(of_pod["fsGroup"].as_i64() == Some(user), "its user may not write to the volume");
    ensure!(of_pod["seccompProfile"]["type"].as_str() == Some("RuntimeDefault"), "it has no seccomp profile");
    ensure!(pod["automountServiceAccountToken"].as_bool() == Some(false), "it has a token of the cluster");
    ensure!(of_container["readOnlyRootFilesystem"].as_bool() == Some(true), "it may write to its root");
    ensure!(of_container["allowPrivilegeEscalation"].as_bool() == Some(false), "it may gain privileges");
    ensure!(of_container["privileged"].is_badvalue(), "it may be privileged");
    let [dropped] = items(&of_container["capabilities"]["drop"]) else {
        anyhow::bail!("it does not drop all capabilities")
    };
    ensure!(dropped.as_str() == Some("ALL"), "it does not drop all capabilities");
    ensure!(of_container["capabilities"]["add"].is_badvalue(), "it adds a capability");
    Ok(())
}

/// Returns the specifications of the claims that serve the volumes of a pod, by the names of the volumes.
fn claims<'a>(documents: &'a [Yaml], workload: &'a Yaml, pod: &'a Yaml) -> BTreeMap<&'a str, &'a Yaml> {
    let alone = |name: &str| {
        let is_it =
            |one: &&Yaml| one["kind"].as_str() == Some("PersistentVolumeClaim") && name_of(one) == Some(name);
        documents.iter().find(is_it)
    };
    let volumes = items(&pod["volumes"]).iter().filter_map(|volume| {
        let claim = alone(volume["persistentVolumeClaim"]["claimName"].as_str()?)?;
        Some((volume["name"].as_str()?, &claim["spec"]))
    });
    let templates = items(&workload["spec"]["volumeClaimTemplates"]).iter();
    volumes.chain(templates.filter_map(|claim| Some((name_of(claim)?, &claim["spec"])))).collect()
}

fn name_of(object: &Yaml) -> Option<&str> {
    object["metadata"]["name"].as_str()
}

fn items(list: &Yaml) -> &[Yaml] {
    list.as_vec().map_or(&[], Vec::as_slice)
}

/// Decodes all manifests strictly, with a Go program made for it. Returns true if all are valid.
///
/// # Errors
/// Go is missing, or its modules cannot be fetched.
pub fn command(words: &[String]) -> Result<bool> {
    if words != ["--check"] {
        return Err(Usage(USAGE.into()).into());
    }
    let home = tempfile::tempdir().context("make a directory")?;
    for (name, text) in MODULE {
        fs::write(home.path().join(name), text).with_context(|| format!("write {name}"))?;
    }
    let go = |words: &[&str]| {
        let mut command = Command::new("go");
        command.args(words).current_dir(home.path());
        command
    };
    let tidied = go(&["mod", "tidy"]).output().context("run go")?;
    ensure!(tidied.status.success(), "go mod tidy: {}", String::from_utf8_lossy(&tidied.stderr));
    let status = go(&["run", "."]).args(manifests()?).status().context("run go")?;
    Ok(status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str) -> String {
        fs::read_to_string(crate::root().join("deploy").join(name)).unwrap()
    }

    #[test]
    fn manifests_run_as_their_user_on_volumes() {
        let containers = manifests().unwrap().iter().map(|path| container(path).unwrap()).collect::<Vec<_>>();
        assert_eq!(containers.len(), 3);
        let volumes: Vec<_> = containers.iter().map(|one| one.mounts.len()).collect();
        assert_eq!(volumes, [2, 1, 1]);
        for Container { arguments, mounts, user } in containers {
            assert!(user > 10_000);
            let has_path = |path: &PathBuf| arguments.contains(&path.display().to_string());
            assert!(mounts.iter().all(has_path), "{arguments:?}");
        }
    }

    #[test]
    fn container_with_further_rights_is_refused() {
        let sound = text("run.yaml");
        read(&sound).unwrap();
        for (right, wrong, problem) in [
            ("runAsNonRoot: true", "runAsNonRoot: false", "root"),
            ("runAsUser: 61537", "runAsUser: 0", "root"),
            ("fsGroup: 61537", "fsGroup: 1", "write to the volume"),
            ("type: RuntimeDefault", "type: Unconfined", "seccomp"),
            ("automountServiceAccountToken: false", "automountServiceAccountToken: true", "token"),
            ("readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "root"),
            ("allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true", "privileges"),
            ("drop: [ALL]", "drop: [CHOWN]", "capabilities"),
            ("drop: [ALL]", "drop: [ALL]\n              add: [SYS_ADMIN]", "capability"),
            ("storage: 1Gi", "storage: 1Ti", "1 GiB"),
            ("claimName: skye-run", "claimName: other", "no claim"),
            ("image: skye:", "image: skye-1:", "image"),
            ("args:", "command: [sh]\n          args:", "entry point"),
            ("          resources:\n", "          resources: {}\n          resources:\n", "YAML"),
        ] {
            let changed = sound.replacen(right, wrong, 1);
            assert_ne!(changed, sound, "{right}");
            let error = format!("{:#}", read(&changed).unwrap_err());
            assert!(error.contains(problem), "{wrong}: {error}");
        }
    }
}
