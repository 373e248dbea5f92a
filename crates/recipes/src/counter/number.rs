//! The two number types that a counter can hold, and their encoding in a node's data.

use std::fmt::{Debug, Display};

use bytes::Bytes;

use crate::error::{Error, Result};

/// A number that a [`Counter`](super::Counter) can hold: `i64` or `i32`.
pub trait Number:
    sealed::Sealed + Copy + Debug + Default + Display + Eq + Ord + Send + Sync + 'static
{
    /// One.
    const ONE: Self;

    /// Adds, wrapping around at the limits of the type.
    #[must_use]
    fn wrapping_add(self, other: Self) -> Self;

    /// Subtracts, wrapping around at the limits of the type.
    #[must_use]
    fn wrapping_sub(self, other: Self) -> Self;

    /// Encodes it as big-endian bytes.
    fn encode(self) -> Bytes;

    /// Decodes a node's data. No data is 0, and bytes after the number are ignored, as in Curator.
    fn decode(path: &str, data: &[u8]) -> Result<Self>;
}

mod sealed {
    /// Curator has these two types and no others.
    pub trait Sealed {}
    impl Sealed for i64 {}
    impl Sealed for i32 {}
}

macro_rules! number {
    ($number:ty) => {
        impl Number for $number {
            const ONE: Self = 1;

            fn wrapping_add(self, other: Self) -> Self {
                <$number>::wrapping_add(self, other)
            }

            fn wrapping_sub(self, other: Self) -> Self {
                <$number>::wrapping_sub(self, other)
            }

            fn encode(self) -> Bytes {
                Bytes::copy_from_slice(&self.to_be_bytes())
            }

            fn decode(path: &str, data: &[u8]) -> Result<Self> {
                match data.first_chunk() {
                    Some(number) => Ok(<$number>::from_be_bytes(*number)),
                    None if data.is_empty() => Ok(0),
                    None => Err(too_short(path, data.len(), size_of::<$number>())),
                }
            }
        }
    };
}

number!(i64);
number!(i32);

fn too_short(path: &str, length: usize, needed: usize) -> Error {
    let reason = format!("a counter needs {needed} bytes, there are {length}");
    Error::Codec { path: path.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_encoded_as_in_curator() {
        assert_eq!(&258_i64.encode()[..], [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(&(-2_i32).encode()[..], [0xff, 0xff, 0xff, 0xfe]);
        assert_eq!(i64::decode("/c", &258_i64.encode()), Ok(258));
        assert_eq!(i32::decode("/c", &(-2_i32).encode()), Ok(-2));
    }

    #[test]
    fn no_data_is_zero_too_little_is_an_error_and_more_is_ignored() {
        assert_eq!(i64::decode("/c", b""), Ok(0));
        assert_eq!(i32::decode("/c", &[0, 0, 0, 7, 9, 9]), Ok(7));
        let error = i64::decode("/c", b"12").unwrap_err();
        assert_eq!(
            error.to_string(),
            "/c: the data cannot be read: a counter needs 8 bytes, there are 2"
        );
    }
}
