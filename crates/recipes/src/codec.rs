//! Conversion of values to the data of a node, and back.
//!
//! Reading and writing are two traits, so that a type that is only read need not be writable.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// Why data could not be decoded or a value could not be encoded.
pub type Reason = Box<dyn std::error::Error + Send + Sync>;

/// Reads values of type `T` from the data of nodes.
pub trait Decode<T>: Send + Sync + 'static {
    /// Returns the value, or what is wrong with the data.
    fn decode(&self, data: &[u8]) -> Result<T, Reason>;
}

/// Encodes values of type `T` as the data of nodes.
pub trait Encode<T>: Send + Sync + 'static {
    /// Returns the data, or why the value cannot be encoded.
    fn encode(&self, value: &T) -> Result<Bytes, Reason>;
}

/// JSON, by serde.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Json;

impl<T: DeserializeOwned> Decode<T> for Json {
    fn decode(&self, data: &[u8]) -> Result<T, Reason> {
        Ok(serde_json::from_slice(data)?)
    }
}

impl<T: Serialize> Encode<T> for Json {
    fn encode(&self, value: &T) -> Result<Bytes, Reason> {
        Ok(serde_json::to_vec(value)?.into())
    }
}

/// UTF-8 text, unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Utf8;

impl Decode<String> for Utf8 {
    fn decode(&self, data: &[u8]) -> Result<String, Reason> {
        Ok(std::str::from_utf8(data)?.to_owned())
    }
}

impl Encode<String> for Utf8 {
    fn encode(&self, value: &String) -> Result<Bytes, Reason> {
        Ok(Bytes::copy_from_slice(value.as_bytes()))
    }
}

/// Bytes, unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Raw;

impl Decode<Bytes> for Raw {
    fn decode(&self, data: &[u8]) -> Result<Bytes, Reason> {
        Ok(Bytes::copy_from_slice(data))
    }
}

impl Encode<Bytes> for Raw {
    fn encode(&self, value: &Bytes) -> Result<Bytes, Reason> {
        Ok(value.clone())
    }
}

/// Exactly four bytes, the highest first: the form of Curator's `SharedCount`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BigEndianI32;

impl Decode<i32> for BigEndianI32 {
    fn decode(&self, data: &[u8]) -> Result<i32, Reason> {
        let bytes: [u8; 4] =
            data.try_into().map_err(|_| format!("a count has 4 bytes, this has {}", data.len()))?;
        Ok(i32::from_be_bytes(bytes))
    }
}

impl Encode<i32> for BigEndianI32 {
    fn encode(&self, value: &i32) -> Result<Bytes, Reason> {
        Ok(Bytes::copy_from_slice(&value.to_be_bytes()))
    }
}

/// Returns the error of a recipe for data, or a value, at a path.
pub(crate) fn at(path: &str) -> impl Fn(Reason) -> Error + '_ {
    |reason| Error::Codec { path: path.to_owned(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let data = Encode::<Vec<u8>>::encode(&Json, &vec![1, 2]).unwrap();
        assert_eq!(data, "[1,2]");
        assert_eq!(Decode::<Vec<u8>>::decode(&Json, &data).unwrap(), [1, 2]);
        let text = "größer".to_owned();
        assert_eq!(Utf8.decode(&Utf8.encode(&text).unwrap()).unwrap(), text);
        let bytes = Bytes::from_static(&[0, 255]);
        assert_eq!(Raw.decode(&Raw.encode(&bytes).unwrap()).unwrap(), bytes);
        for count in [0, -1, i32::MAX, i32::MIN] {
            assert_eq!(BigEndianI32.decode(&BigEndianI32.encode(&count).unwrap()).unwrap(), count);
        }
        assert_eq!(BigEndianI32.encode(&1).unwrap(), &[0, 0, 0, 1][..]);
    }

    #[test]
    fn data_of_another_kind_is_refused() {
        assert!(Decode::<Vec<u8>>::decode(&Json, b"{").is_err());
        assert!(Utf8.decode(&[0xff]).is_err());
        assert!(BigEndianI32.decode(b"").is_err());
        assert!(BigEndianI32.decode(b"12345").is_err());
    }
}
