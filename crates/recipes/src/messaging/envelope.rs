//! A line of JSON, then bytes: the format of nodes of messaging and master–worker that have a header and a body.
//!
//! ```text
//! {"outcome":"done"}\n<any bytes>
//! ```
//! The format is readable in a shell, and the body is neither copied nor escaped when it is read. Pure.

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// Encodes a header and a body as the data of a node.
pub(crate) fn encode_envelope(header: &impl Serialize, body: &[u8]) -> Bytes {
    let header = to_json(header);
    let mut data = BytesMut::with_capacity(header.len() + 1 + body.len());
    data.put_slice(&header);
    data.put_u8(b'\n');
    data.put_slice(body);
    data.freeze()
}

/// Decodes the header and the body of a node's data; the body is a view of it.
pub(crate) fn decode_envelope<H: DeserializeOwned>(path: &str, data: &Bytes) -> Result<(H, Bytes)> {
    // Compact JSON contains no line breaks: those in strings are escaped.
    let Some(end) = data.iter().position(|byte| *byte == b'\n') else {
        return Err(unreadable(path, &"there is no header line"));
    };
    Ok((from_json(path, &data[..end])?, data.slice(end + 1..)))
}

/// Encodes a record of this crate as JSON.
pub(crate) fn to_json(value: &impl Serialize) -> Bytes {
    let json = serde_json::to_vec(value);
    json.expect("our records have string keys and no failing serializers").into()
}

/// Encodes a user's value as JSON, which its serializer may fail to do.
pub(crate) fn user_json(value: &impl Serialize) -> Result<Bytes> {
    let json = serde_json::to_vec(value);
    json.map(Bytes::from)
        .map_err(|error| Error::invalid(format!("the value cannot be encoded as JSON: {error}")))
}

/// Decodes a value from the data at `path`.
pub(crate) fn from_json<T: DeserializeOwned>(path: &str, data: &[u8]) -> Result<T> {
    serde_json::from_slice(data).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &str, reason: &impl ToString) -> Error {
    Error::Codec { path: path.to_owned(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        for body in [&b""[..], b"a\nb", b"\n", b"\0\xff"] {
            let header = "first\nsecond".to_owned();
            let data = encode_envelope(&header, body);
            assert_eq!(
                decode_envelope::<String>("/a", &data),
                Ok((header, Bytes::copy_from_slice(body)))
            );
        }
    }

    #[test]
    fn data_that_is_not_an_envelope_is_refused_with_its_path() {
        for data in ["", "\"a\"", "\n", "{\n}", "1\nbody"] {
            let error = decode_envelope::<String>("/a", &Bytes::from(data)).unwrap_err();
            assert!(matches!(error, Error::Codec { ref path, .. } if path == "/a"), "{error}");
        }
    }
}
