//! Macros that declare the types of documents: all derive the same traits, and, in tests of this crate, a schema.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserializer;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};

macro_rules! document {
    ($($(#[$meta:meta])* pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)+ })+) => { $(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        pub struct $name { $($(#[$field_meta])* pub $field: $type,)+ }
    )+ };
}

/// A piece of a document's object while its keys are read, one after the other.
pub(crate) trait PieceReader: Default {
    /// Type of the piece.
    type Output;

    /// Reads the value of a key, and returns true, if the key belongs to this piece.
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error>;

    /// Returns the piece; an error if a key is missing.
    fn finish<E: Error>(self) -> Result<Self::Output, E>;
}

/// A piece of a document's object, whose keys may lie among those of other pieces.
pub(crate) trait Piece: Sized {
    /// Keys of it that were read so far.
    type PieceReader: PieceReader<Output = Self>;
}

/// Reads the object of a piece, and ignores unknown keys.
pub(crate) fn read_piece<'de, T: Piece, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct Keys<T>(PhantomData<T>);

    impl<'de, T: Piece> Visitor<'de> for Keys<T> {
        type Value = T;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
            let mut reading = T::PieceReader::default();
            while let Some(key) = map.next_key::<String>()? {
                if !reading.take(&key, &mut map)? {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            reading.finish()
        }
    }

    deserializer.deserialize_map(Keys(PhantomData))
}

/// Declares objects that consist of pieces, and such pieces. Serde's own `flatten` would keep all values in memory before
/// it reads them, with a second copy of all code that reads.
///
/// Brackets hold the rule of a field. A `needed` key must be there. A `piece` has its keys in the same object. The word
/// `as` names another type, from which the value is made, and `key` another key than the field's name.
macro_rules! pieces {
    ($($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$field_meta:meta])* pub $field:ident: $type:ty $([$($rule:tt)+])?,)+
    })+) => { $(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        pub struct $name { $($(#[$field_meta])* pub $field: $type,)+ }

        const _: () = {
            #[derive(Default)]
            pub struct Keys { $($field: $crate::document::pieces!(@reading $type $(, $($rule)+)?),)+ }

            impl $crate::document::PieceReader for Keys {
                type Output = $name;

                fn take<'de, A: serde::de::MapAccess<'de>>(
                    &mut self,
                    key: &str,
                    map: &mut A,
                ) -> Result<bool, A::Error> {
                    $($crate::document::pieces!(@take self.$field, key, map, $type $(, $($rule)+)?);)+
                    Ok(false)
                }

                fn finish<E: serde::de::Error>(self) -> Result<$name, E> {
                    Ok($name { $($field: $crate::document::pieces!(@finish self.$field $(, $($rule)+)?),)+ })
                }
            }

            impl $crate::document::Piece for $name {
                type PieceReader = Keys;
            }
        };
    )+ };
    (@reading $type:ty, piece) => { <$type as $crate::document::Piece>::PieceReader };
    (@reading $type:ty $(, $($rule:tt)+)?) => { Option<$type> };
    (@take $self:ident.$field:ident, $key:ident, $map:ident, $type:ty, piece) => {
        if $crate::document::PieceReader::take(&mut $self.$field, $key, $map)? {
            return Ok(true);
        }
    };
    (@take $self:ident.$field:ident, $key:ident, $map:ident, $type:ty, key $name:literal) => {
        $crate::document::pieces!(@value $self.$field, $key, $map, $type, $name)
    };
    (@take $self:ident.$field:ident, $key:ident, $map:ident, $type:ty, $(needed)? as $read:ty) => {
        $crate::document::pieces!(@value $self.$field, $key, $map, $read, stringify!($field))
    };
    (@take $self:ident.$field:ident, $key:ident, $map:ident, $type:ty $(, needed)?) => {
        $crate::document::pieces!(@value $self.$field, $key, $map, $type, stringify!($field))
    };
    (@value $self:ident.$field:ident, $key:ident, $map:ident, $type:ty, $name:expr) => {
        if $key == $name {
            $self.$field = Some($map.next_value::<$type>()?.into());
            return Ok(true);
        }
    };
    (@finish $self:ident.$field:ident, piece) => { $crate::document::PieceReader::finish($self.$field)? };
    (@finish $self:ident.$field:ident, needed $($rest:tt)*) => {
        $self.$field.ok_or_else(|| E::missing_field(stringify!($field)))?
    };
    (@finish $self:ident.$field:ident $(, $($rule:tt)+)?) => { $self.$field.unwrap_or_default() };
}

/// Lets serde read objects that consist of pieces.
macro_rules! read_as_pieces {
    ($($name:ident),+) => { $(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::document::read_piece(deserializer)
            }
        }
    )+ };
}

macro_rules! words {
    ($($(#[$meta:meta])* pub enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident,)+ })+) => { $(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$variant_meta])* $variant,)+ }
    )+ };
}

pub(crate) use {document, pieces, read_as_pieces, words};

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    pieces! {
        pub struct Row {
            pub name: String [needed],
            #[serde(flatten)]
            pub part: Part [piece],
            #[serde(rename = "last")]
            pub end: Option<u32> [key "last"],
        }

        pub struct Part {
            pub count: u64 [needed],
            pub words: Vec<String>,
        }
    }
    read_as_pieces!(Row);

    #[test]
    fn flattened_parts_share_one_json_object() {
        let row = |words: &[&str], end| Row {
            name: "x".into(),
            part: Part { count: 3, words: words.iter().map(|word| (*word).to_owned()).collect() },
            end,
        };
        let read = |text: &str| serde_json::from_str::<Row>(text).unwrap();
        let text = r#"{"name":"x","count":3,"words":["a"],"last":7}"#;
        assert_eq!(read(text), row(&["a"], Some(7)));
        assert_eq!(serde_json::to_string(&row(&["a"], Some(7))).unwrap(), text);
        // Other orders, unknown keys, and keys that may be absent.
        assert_eq!(read(r#"{"new":{"count":1},"count":3,"last":null,"name":"x"}"#), row(&[], None));
    }

    #[test]
    fn missing_key_of_flattened_part_is_reported() {
        let problem = |text: &str| serde_json::from_str::<Row>(text).unwrap_err().to_string();
        assert!(problem(r#"{"name":"x"}"#).starts_with("missing field `count`"));
        assert!(problem(r#"{"count":1}"#).starts_with("missing field `name`"));
        assert!(problem(r#"{"name":"x","count":"1"}"#).starts_with("invalid type: string"));
    }
}
