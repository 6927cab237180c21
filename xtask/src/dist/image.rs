//! An image of containers, without a daemon: the layout of the Open Container Initiative (image-spec 1.1), as one tar.
//!
//! The image has one layer with the static program at `/skye`. Runtimes mount `/proc`, `/sys`, `/dev` and volumes.

use anyhow::Result;
use serde_json::{Value, json};

use super::archive::{DATA, Files, gzip, sha256_of};

/// Users that the image knows, so that files have owners and `-u nobody` has a meaning.
const PASSWD: &str = "root:x:0:0:root:/:/skye\nnobody:x:65534:65534:nobody:/:/skye\n";
const GROUP: &str = "root:x:0:\nnogroup:x:65534:\n";

/// Facts about an image.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    /// Architecture in the words of Go: `amd64`, `arm64`.
    pub architecture: &'a str,
    /// Version of skye.
    pub version: &'a str,
    /// Commit of the sources.
    pub revision: &'a str,
    /// Time of the commit, RFC 3339.
    pub created: &'a str,
    /// The same time in seconds since 1970.
    pub seconds: u64,
}

/// Returns the image of a static program and the documents that its licences require.
pub(super) fn layout(program: &[u8], licences: &[(&str, &[u8])], facts: &Facts<'_>) -> Result<Vec<u8>> {
    let layer = layer(program, licences, facts.seconds)?;
    let packed = gzip(&layer)?;
    let config = json!({
        "architecture": facts.architecture,
        "os": "linux",
        "created": facts.created,
        "config": {"Entrypoint": ["/skye"], "WorkingDir": "/", "Labels": labels(facts)},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", sha256_of(&layer)?)]},
        "history": [{"created": facts.created, "created_by": "cargo xtask dist"}],
    });
    let mut files = Files::default();
    let config =
        blob(&mut files, "application/vnd.oci.image.config.v1+json", config.to_string().into_bytes())?;
    let layer = blob(&mut files, "application/vnd.oci.image.layer.v1.tar+gzip", packed)?;
    const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer], "annotations": labels(facts),
    });
    let mut manifest = blob(&mut files, MANIFEST, manifest.to_string().into_bytes())?;
    manifest["platform"] = json!({"architecture": facts.architecture, "os": "linux"});
    manifest["annotations"] = json!({"org.opencontainers.image.ref.name": facts.version});
    const INDEX: &str = "application/vnd.oci.image.index.v1+json";
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [manifest]});
    files.add("index.json", DATA, index.to_string());
    files.add("oci-layout", DATA, json!({"imageLayoutVersion": "1.0.0"}).to_string());
    files.tar("", facts.seconds)
}

fn layer(program: &[u8], licences: &[(&str, &[u8])], seconds: u64) -> Result<Vec<u8>> {
    let mut files = Files::default();
    files.add("skye", super::archive::PROGRAM, program);
    files.add("etc/passwd", DATA, PASSWD);
    files.add("etc/group", DATA, GROUP);
    for (name, text) in licences {
        files.add(format!("licences/{name}"), DATA, *text);
    }
    files.tar("", seconds)
}

fn labels(facts: &Facts<'_>) -> Value {
    json!({
        "org.opencontainers.image.title": "skye",
        "org.opencontainers.image.version": facts.version,
        "org.opencontainers.image.revision": facts.revision,
        "org.opencontainers.image.created": facts.created,
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
    })
}

/// Adds a blob, and returns its descriptor.
fn blob(files: &mut Files, media_type: &str, content: Vec<u8>) -> Result<Value> {
    let (sum, size) = (sha256_of(&content)?, content.len());
    files.add(format!("blobs/sha256/{sum}"), DATA, content);
    Ok(json!({"mediaType": media_type, "digest": format!("sha256:{sum}"), "size": size}))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read;

    use super::*;

    fn unpacked(tar: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(tar);
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().to_string_lossy().into_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (path, content)
        });
        entries.collect()
    }

    fn image() -> BTreeMap<String, Vec<u8>> {
        let facts = Facts {
            architecture: "amd64",
            version: "1.2.3",
            revision: "0123",
            created: "2026-01-02T03:04:05Z",
            seconds: 9,
        };
        unpacked(&layout(b"program", &[("MIT", b"text")], &facts).unwrap())
    }

    #[test]
    fn descriptors_lead_from_index_to_program() {
        let image = image();
        let target = |descriptor: &Value| {
            let sum = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
            let content = &image[&format!("blobs/sha256/{sum}")];
            assert_eq!(
                (content.len() as u64, sha256_of(content).unwrap()),
                (descriptor["size"].as_u64().unwrap(), sum.into())
            );
            content.clone()
        };
        let parsed = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
        let manifest = parsed(&target(&parsed(&image["index.json"])["manifests"][0]));
        let config = parsed(&target(&manifest["config"]));
        assert_eq!(config["config"]["Entrypoint"], json!(["/skye"]));
        let mut layer = Vec::new();
        flate2::read::GzDecoder::new(target(&manifest["layers"][0]).as_slice())
            .read_to_end(&mut layer)
            .unwrap();
        assert_eq!(config["rootfs"]["diff_ids"], json!([format!("sha256:{}", sha256_of(&layer).unwrap())]));
        assert_eq!(unpacked(&layer)["skye"], b"program");
        assert_eq!(parsed(&image["oci-layout"])["imageLayoutVersion"], "1.0.0");
    }
}
