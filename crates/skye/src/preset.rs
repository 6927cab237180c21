//! Presets: shipped inside the program, or read from a file of the same words.

use model::nearest;
use model::request::Request;

use crate::exit::Failure;

const SHIPPED: &[(&str, &str)] = &[
    ("quick", include_str!("../../../presets/quick.toml")),
    ("standard", include_str!("../../../presets/standard.toml")),
    ("rigorous", include_str!("../../../presets/rigorous.toml")),
    ("disk", include_str!("../../../presets/disk.toml")),
];

/// The preset that runs when none is named.
pub const DEFAULT: &str = "standard";

/// Reads a preset by its name, or from a file if the name ends in `.toml` or contains a slash.
///
/// # Errors
/// An unknown name with the nearest known one, or a file with a mistake and its line.
pub fn load(name: &str) -> Result<Request, Failure> {
    if let Some((_, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
        return parse(name, text);
    }
    if name.ends_with(".toml") || name.contains('/') {
        let text = std::fs::read_to_string(name).map_err(|error| {
            Failure::Refused(format!(
                "cannot read the preset {name}: {error}; name a TOML file, or one of {}",
                names()
            ))
        })?;
        return parse(name, &text);
    }
    let near = nearest(name, SHIPPED.iter().map(|(shipped, _)| *shipped));
    let hint = near.map_or(format!("presets are {}", names()), |near| format!("did you mean `{near}`?"));
    Err(Failure::Refused(format!("cannot use the preset {name}: there is none of that name; {hint}")))
}

fn parse(name: &str, text: &str) -> Result<Request, Failure> {
    Request::from_toml(text)
        .map_err(|problem| Failure::Refused(format!("cannot read the preset {name}: {problem}")))
}

fn names() -> String {
    SHIPPED.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}
