//! Load files of dbench that tests name: each is read once, before anything is planned.

use std::path::Path;
use std::sync::Arc;

use model::Request;
use model::load::{Load, LoadFile};
use model::spec::{self, Defaults};
use model::workload::FileVerb;

use crate::exit::Failure;
use crate::inputs;

/// Size limit of a load file. That of dbench 4 has 25 MiB.
const LOAD_BYTES_MAX: u64 = 256 << 20;

/// Reads the load files of a request.
///
/// # Errors
/// A file cannot be read, or a line of it is broken.
pub fn read(mut request: Request) -> Result<Request, Failure> {
    for test in request.tests.iter().chain(&request.tests_where_possible) {
        // The plan refuses specs that are not understood.
        let Ok(workload) = spec::parse(test, &Defaults::default()) else { continue };
        let Some(files) = workload.files().filter(|files| files.verb == FileVerb::Replay) else { continue };
        let name = &files.load_file.name;
        if request.loads.iter().any(|known| known.name == *name) {
            continue;
        }
        let refused =
            |problem: String| Failure::Refused(format!("cannot replay the load file {name}: {problem}"));
        let text = inputs::read_text(Path::new(name), LOAD_BYTES_MAX)
            .map_err(|error| refused(format!("{error}; use a load file of dbench 4, uncompressed text")))?;
        let load = Load::parse(&text).map_err(refused)?;
        request.loads.push(LoadFile { name: name.clone(), load: Some(Arc::new(load)) });
    }
    Ok(request)
}
