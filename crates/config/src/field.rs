//! Stores values from a row of the table into the fields of the configuration: the notation of the
//! rows, and how each type of field converts a value.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;

use herdsman_secret::Secret;

/// Converts a value for a field. Unsigned fields store negative numbers as 0; an option of an unsigned
/// number is `None` for negative ones, an option of a nonzero number also for 0.
pub(super) trait Field<V> {
    fn take(value: V) -> Self;
}

impl Field<i64> for i64 {
    fn take(value: i64) -> Self {
        value
    }
}

impl Field<i64> for u16 {
    fn take(value: i64) -> Self {
        Self::try_from(value.max(0)).unwrap_or(Self::MAX)
    }
}

impl Field<i64> for u32 {
    fn take(value: i64) -> Self {
        Self::try_from(value.max(0)).unwrap_or(Self::MAX)
    }
}

impl Field<i64> for u64 {
    fn take(value: i64) -> Self {
        Self::try_from(value).unwrap_or(0)
    }
}

impl Field<i64> for Option<i64> {
    fn take(value: i64) -> Self {
        Some(value)
    }
}

impl Field<i64> for Option<u16> {
    fn take(value: i64) -> Self {
        Some(u16::take(value))
    }
}

impl Field<i64> for Option<u32> {
    fn take(value: i64) -> Self {
        (value >= 0).then(|| u32::take(value))
    }
}

impl Field<i64> for Option<NonZeroU32> {
    fn take(value: i64) -> Self {
        NonZeroU32::new(u32::take(value))
    }
}

impl Field<i64> for Option<NonZeroU64> {
    fn take(value: i64) -> Self {
        NonZeroU64::new(u64::take(value))
    }
}

impl Field<bool> for bool {
    fn take(value: bool) -> Self {
        value
    }
}

impl Field<bool> for Option<bool> {
    fn take(value: bool) -> Self {
        Some(value)
    }
}

impl Field<f64> for f64 {
    fn take(value: f64) -> Self {
        value
    }
}

impl Field<&str> for String {
    fn take(value: &str) -> Self {
        value.to_owned()
    }
}

impl Field<&str> for Option<String> {
    fn take(value: &str) -> Self {
        (!value.is_empty()).then(|| value.to_owned())
    }
}

/// A comma-separated list.
impl Field<&str> for Vec<String> {
    fn take(value: &str) -> Self {
        value.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
    }
}

impl Field<&str> for Option<PathBuf> {
    fn take(value: &str) -> Self {
        (!value.is_empty()).then(|| PathBuf::from(value))
    }
}

impl Field<&str> for Option<Secret> {
    fn take(value: &str) -> Self {
        (!value.is_empty()).then(|| Secret::new(value))
    }
}

/// Fields that define their own words.
pub(super) trait FromWord: Sized {
    /// Reads a word, or returns what is expected.
    fn from_word(word: &str) -> Result<Self, &'static str>;
}

/// Rows of the table. A row is `key, source shape => field, initial value, unit, status, sentence;`
/// where the field is one of [`Config`](super::Config), or `raw.<one of Raw>` if
/// `rules` makes the final value from it, or `kept`.
macro_rules! settings {
    ($($key:expr, $source:ident $shape:ident => $($field:ident).+,
       $initial:expr, $unit:literal, $status:expr, $about:expr;)*) => {
        &[$($crate::setting::Setting {
            key: $key,
            source: $crate::setting::Source::$source,
            shape: $crate::setting::Shape::$shape,
            unit: $unit,
            initial: $initial,
            status: $status,
            reloadable: false,
            about: $about,
            field: concat!($(".", stringify!($field)),+),
            store: $crate::field::store!($shape, $($field).+),
        }),*]
    };
}

/// The function that stores a value of a shape into a field.
macro_rules! store {
    ($shape:ident, kept) => { $crate::setting::Store::Kept };
    (Int, $($f:ident).+) => { $crate::field::store!(@ Int, $($f).+) };
    (Long, $($f:ident).+) => { $crate::field::store!(@ Int, $($f).+) };
    (Port, $($f:ident).+) => { $crate::field::store!(@ Int, $($f).+) };
    (LooseInt, $($f:ident).+) => { $crate::field::store!(@ Int, $($f).+) };
    (LooseLong, $($f:ident).+) => { $crate::field::store!(@ Int, $($f).+) };
    (LooseDecimal, $($f:ident).+) => { $crate::field::store!(@ Int, $($f).+) };
    (Float, $($f:ident).+) => { $crate::field::store!(@ Float, $($f).+) };
    (LooseFloat, $($f:ident).+) => { $crate::field::store!(@ Float, $($f).+) };
    (Text, $($f:ident).+) => { $crate::field::store!(@ Text, $($f).+) };
    (Secret, $($f:ident).+) => { $crate::field::store!(@ Text, $($f).+) };
    (Path, $($f:ident).+) => { $crate::field::store!(@ Text, $($f).+) };
    (Word, raw.$f:ident) => {
        $crate::setting::Store::Word(|draft, value| {
            draft.raw.$f = $crate::field::FromWord::from_word(value)?;
            Ok(())
        })
    };
    (Word, $area:ident.$f:ident) => {
        $crate::setting::Store::Word(|draft, value| {
            draft.config.$area.$f = $crate::field::FromWord::from_word(value)?;
            Ok(())
        })
    };
    (@ $kind:ident, raw.$f:ident) => {
        $crate::setting::Store::$kind(|draft, value| {
            draft.raw.$f = $crate::field::Field::take(value);
        })
    };
    (@ $kind:ident, $area:ident.$f:ident) => {
        $crate::setting::Store::$kind(|draft, value| {
            draft.config.$area.$f = $crate::field::Field::take(value);
        })
    };
    ($switch:ident, $($f:ident).+) => { $crate::field::store!(@ Bool, $($f).+) };
}

pub(super) use {settings, store};
