//! Keys of a SPEC. Each is declared once, with its field, its default, its verbs, its form and its help. From that,
//! `keys!` makes the struct, the parser, the printer and the label.

use std::fmt;
use std::str::FromStr;

use super::{Arrival, OpenRate};
use crate::size::{self, Size};

/// Most operations per second of an open loop: already more than drawing their start times leaves time for.
pub(crate) const RATE_MAX: u64 = 100_000_000;

/// One key of a SPEC, for tests of one kind.
#[derive(Debug)]
pub struct Key<W: 'static> {
    /// The word before the `=`.
    pub name: &'static str,
    /// Form of the value; empty for a key without one.
    pub form: &'static str,
    /// Its meaning, as Markdown.
    pub help: &'static str,
    /// Returns true if the verb of a test takes it.
    pub(crate) is_accepted: fn(&W) -> bool,
    /// Remedy for a verb that does not take it, after "has no meaning for VERB"; empty where there is none.
    pub(crate) remedy: &'static str,
    /// Sets the key to a value; to an empty one if it has none.
    pub(crate) set: fn(&mut W, &str) -> Result<(), String>,
    /// Returns the value where it is not the default; an empty one if the key has none.
    pub(crate) value: fn(&W) -> Option<String>,
    /// Part of the label.
    pub(crate) label: Label<W>,
}

/// Part of a test's label that comes from a key.
#[derive(Debug)]
pub(crate) enum Label<W: 'static> {
    /// None.
    Nothing,
    /// The key as in the SPEC, where it is not the default.
    Key,
    /// The value alone, where it is not the default.
    Value,
    /// A label from a function.
    Own(fn(&W) -> Option<String>),
}

impl<W> Key<W> {
    /// Returns true if the verb of a test takes it.
    pub fn accepts(&self, work: &W) -> bool {
        (self.is_accepted)(work)
    }

    /// Returns the key as a word of a SPEC, where it is not the default.
    pub(crate) fn word(&self, work: &W) -> Option<String> {
        let value = (self.value)(work).filter(|_| self.accepts(work))?;
        Some(if self.form.is_empty() { self.name.to_owned() } else { format!("{}={value}", self.name) })
    }

    /// Returns the part of the label.
    pub(crate) fn label(&self, work: &W) -> Option<String> {
        match self.label {
            Label::Nothing => None,
            Label::Key => self.word(work),
            Label::Value => (self.value)(work).filter(|_| self.accepts(work)),
            Label::Own(words) => words(work),
        }
    }
}

/// Form of a value: how text becomes a value of this type, and back.
pub(crate) trait Form<T> {
    /// Parses the value of a key, which has this form.
    fn parse(&self, key: &str, form: &str, value: &str) -> Result<T, String>;
    /// Prints a value.
    fn print(&self, value: &T) -> String;
}

/// A key without a value: true where it is given.
pub(crate) struct Flag;

impl Form<bool> for Flag {
    fn parse(&self, _: &str, _: &str, _: &str) -> Result<bool, String> {
        Ok(true)
    }

    fn print(&self, _: &bool) -> String {
        String::new()
    }
}

/// A count within a range, which may carry the binary suffixes of sizes.
pub(crate) struct Count(pub u64, pub u64);

impl<N: TryFrom<u64> + Copy + Into<u64>> Form<N> for Count {
    fn parse(&self, key: &str, _: &str, value: &str) -> Result<N, String> {
        let Self(least, most) = self;
        match value.parse::<Size>() {
            Ok(Size::Bytes(number)) if (*least..=*most).contains(&number) => {
                N::try_from(number).map_err(|_| format!("`{key}={value}`: {number} is too large"))
            }
            Ok(Size::Bytes(_)) => Err(format!("`{key}={value}`: the range is {least} to {most}")),
            _ => Err(format!("`{key}={value}`: `{value}` is not a whole number such as 8192 or 64k")),
        }
    }

    fn print(&self, value: &N) -> String {
        size::exact((*value).into())
    }
}

/// A size within a range. The third field is the lower end as the message about another size prints it.
pub(crate) struct Bytes(pub u64, pub u64, pub &'static str);

impl Form<u64> for Bytes {
    fn parse(&self, key: &str, _: &str, value: &str) -> Result<u64, String> {
        let Self(least, most, shown) = self;
        let bytes = bytes(key, value)?;
        if (*least..=*most).contains(&bytes) {
            return Ok(bytes);
        }
        Err(format!("`{key}={value}`: the range is {shown} to {}", size::exact(*most)))
    }

    fn print(&self, value: &u64) -> String {
        size::exact(*value)
    }
}

/// A value that may be absent.
pub(crate) struct Maybe<F>(pub F);

impl<T, F: Form<T>> Form<Option<T>> for Maybe<F> {
    fn parse(&self, key: &str, form: &str, value: &str) -> Result<Option<T>, String> {
        self.0.parse(key, form, value).map(Some)
    }

    fn print(&self, value: &Option<T>) -> String {
        value.as_ref().map_or_else(String::new, |value| self.0.print(value))
    }
}

/// One of a few words.
pub(crate) struct Words;

impl<T: FromStr + fmt::Display> Form<T> for Words {
    fn parse(&self, key: &str, form: &str, value: &str) -> Result<T, String> {
        value.parse().map_err(|_| format!("`{key}={value}`: use {key}={form}"))
    }

    fn print(&self, value: &T) -> String {
        value.to_string()
    }
}

/// The rate of an open loop: `500` or `50%`, either with `,poisson`.
pub(crate) struct Rate;

impl Form<Arrival> for Rate {
    fn parse(&self, key: &str, _: &str, value: &str) -> Result<Arrival, String> {
        let (number, is_poisson) = match value.split_once(',') {
            None => (value, false),
            Some((number, "poisson")) => (number, true),
            Some((number, _)) => {
                return Err(format!("`{key}={value}`: use {key}={number} or {key}={number},poisson"));
            }
        };
        let (digits, is_percent) = number.strip_suffix('%').map_or((number, false), |digits| (digits, true));
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let problem = match digits.parse::<u64>().ok().filter(|_| is_number) {
            Some(0) => {
                "at rate 0, no operation starts; use rate=500 for 500 operations a second, or drop rate for the full rate"
                    .to_owned()
            }
            Some(percent @ 1..=100) if is_percent => {
                return Ok(Arrival::Open { rate: OpenRate::Percent(percent as u8), is_poisson });
            }
            Some(_) if is_percent => {
                "the range is 1% to 100% of the closed-loop rate; use rate=500 for 500 operations a second".to_owned()
            }
            Some(rate) if rate > RATE_MAX => format!("the maximum is {RATE_MAX} operations a second"),
            Some(rate) => return Ok(Arrival::Open { rate: OpenRate::PerSecond(rate), is_poisson }),
            None => format!(
                "`{number}` is neither operations a second, such as 500, nor a percentage of the closed-loop rate, such as 50%"
            ),
        };
        Err(format!("`{key}={value}`: {problem}"))
    }

    fn print(&self, value: &Arrival) -> String {
        value.to_string()
    }
}

/// Returns true: each verb takes the key.
pub(crate) fn any_verb<W>(_: &W) -> bool {
    true
}

/// Parses a size in bytes.
pub(crate) fn bytes(key: &str, value: &str) -> Result<u64, String> {
    match value.parse::<Size>() {
        Ok(Size::Bytes(bytes)) => Ok(bytes),
        Ok(_) => Err(format!("{key}: `{value}` is not absolute; use for example 64k or 1g")),
        Err(error) => Err(format!("{key}: {error}")),
    }
}

/// Declares the struct of one kind of work, and the keys that set its fields. A key follows its field, once for each
/// form that it has for some verbs. In square brackets are the field and its form, or a function that sets the key and
/// one that returns its value.
macro_rules! keys {
    (
        $(#[$meta:meta])* $work:ident, $keys:ident,
        new($verb:ident: $verb_type:ty $(, $parameter:ident: $parameter_type:ty)*) usual($usual:expr)
        $(
            $( $(#[$doc:meta])* field $field:ident: $type:ty = $default:expr; )*
            key $name:literal $form:tt [$($access:tt)*] for $takes:expr, $remedy:expr;
                label $label:expr; $help:expr;
        )*
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $work {
            /// Verb, which defines one operation.
            pub verb: $verb_type,
            $($( $(#[$doc])* pub $field: $type, )*)*
        }

        impl $work {
            /// Returns the work of a verb with the default of every key.
            pub fn new($verb: $verb_type $(, $parameter: $parameter_type)*) -> Self {
                Self { verb: $verb, $($( $field: $default, )*)* }
            }
        }

        /// The keys, in the order in which a SPEC has them.
        pub const $keys: &[Key<$work>] = &[$(
            Key {
                name: $name,
                form: $form,
                help: $help,
                is_accepted: $takes,
                remedy: $remedy,
                set: keys!(@set $name $form [$($access)*]),
                value: keys!(@value $usual, [$($access)*]),
                label: $label,
            },
        )*];
    };
    (@set $name:literal $form:tt [$field:ident: $parser:expr]) => {
        |work, value| {
            work.$field = Form::parse(&$parser, $name, $form, value)?;
            Ok(())
        }
    };
    (@set $name:literal $form:tt [$set:expr, $value:expr]) => { $set };
    (@value $usual:expr, [$field:ident: $form:expr]) => {
        |work| (work.$field != $usual(work).$field).then(|| Form::print(&$form, &work.$field))
    };
    (@value $usual:expr, [$set:expr, $value:expr]) => { $value };
}
pub(crate) use keys;
