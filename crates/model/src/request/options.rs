//! Options of a request. Each is declared once, with its word in preset files, its type, its flags and their help. From
//! that, `options!` makes the struct, its form in TOML, the merging of two requests, and the table of the flags.

use std::fmt;
use std::str::FromStr;

use super::Request;

/// One word of a request.
#[derive(Debug)]
pub struct RequestOption {
    /// The word in preset files.
    pub name: &'static str,
    /// Its meaning, as a sentence.
    pub meaning: &'static str,
    /// True if it is a list, so that a flag may be repeated.
    pub is_list: bool,
    /// Commands that take its flags.
    pub commands: &'static [&'static str],
    /// Flags that set it; the word is in preset files alone where there are none.
    pub flags: &'static [Flag],
    /// Examples of it on a command line, which tests try.
    pub examples: &'static [&'static str],
    /// Sets it to the value of a text, or adds that to the list.
    pub set: fn(&mut Request, &str) -> Result<(), String>,
}

/// One flag.
#[derive(Debug)]
pub struct Flag {
    /// Its name, without dashes.
    pub name: &'static str,
    /// Its value.
    pub value: FlagValue,
    /// Its help, as a sentence; empty where it is the option's meaning.
    pub help: &'static str,
}

/// Value of a flag.
#[derive(Debug, Clone, Copy)]
pub enum FlagValue {
    /// A text of this form.
    Text(&'static str),
    /// One of a few words: their name in help, and each word with its meaning.
    Word(&'static str, &'static [(&'static str, &'static str)]),
    /// None: the flag itself stands for this text.
    Is(&'static str),
}

/// Type of an option, which text can set.
pub(super) trait Settable {
    const IS_LIST: bool;
    fn set(&mut self, text: &str) -> Result<(), String>;
}

impl<T: FromStr<Err: fmt::Display>> Settable for Option<T> {
    const IS_LIST: bool = false;

    fn set(&mut self, text: &str) -> Result<(), String> {
        *self = Some(text.parse().map_err(|error: T::Err| error.to_string())?);
        Ok(())
    }
}

impl<T: FromStr<Err: fmt::Display>> Settable for Vec<T> {
    const IS_LIST: bool = true;

    fn set(&mut self, text: &str) -> Result<(), String> {
        self.push(text.parse().map_err(|error: T::Err| error.to_string())?);
        Ok(())
    }
}

/// Returns true if an option has its default.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Declares the options. The comment on an option is its meaning, and that on a flag the flag's own help. In square
/// brackets are the commands that take the flags.
macro_rules! options {
    (
        $(#[$meta:meta])* $request:ident,
        $(
            $(#[doc = $meaning:tt])+ $name:ident: $type:ty [$($command:ident)*]
            $($(#[doc = $help:tt])* $flag:literal $value:ident($($given:expr),+)),* $(; like $($example:literal),+)?;
        )+
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $request {
            $($(#[doc = $meaning])+ #[serde(skip_serializing_if = "is_default")] pub $name: $type,)+
            /// The load files that tests name, once they were read. Documents have their names alone.
            #[serde(skip)]
            pub loads: Vec<LoadFile>,
        }

        impl $request {
            /// Its options, in the order in which preset files have them.
            pub const OPTIONS: &[RequestOption] = &[$(RequestOption {
                name: stringify!($name),
                meaning: concat!($($meaning),+).trim_ascii(),
                is_list: <$type as Settable>::IS_LIST,
                commands: &[$(stringify!($command)),*],
                flags: &[$(Flag {
                    name: $flag,
                    value: FlagValue::$value($($given),+),
                    help: concat!($($help),*).trim_ascii(),
                }),*],
                examples: &[$($($example),+)?],
                set: |request, text| request.$name.set(text),
            }),+];

            /// Returns what this request says, and what `lower` says where this one says nothing.
            fn or(self, lower: Self) -> Self {
                Self {
                    $($name: if is_default(&self.$name) { lower.$name } else { self.$name },)+
                    loads: self.loads.into_iter().chain(lower.loads).collect(),
                }
            }
        }
    };
}
pub(super) use options;
