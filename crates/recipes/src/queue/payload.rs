//! The bytes of an item in Curator's `DistributedQueue`, followed by a count of our own.
//!
//! ```text
//! 00 01 00 01                     version
//! 01 <i32 length> <bytes>         once for each payload, big-endian
//! 02                              the end; Curator reads no further
//! 03 <i32 deliveries>             ours, optional: how often the item was handed to a consumer
//! ```
//! Curator: `ItemSerializer`. Pure.

use bytes::{Buf, BufMut, Bytes, BytesMut};

const VERSION: i32 = 0x0001_0001;
const PAYLOAD: u8 = 1;
const END: u8 = 2;
const DELIVERIES: u8 = 3;

/// The data of an item's node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) payloads: Vec<Bytes>,
    /// How often a queue with a dead letter has delivered it.
    pub(super) deliveries: u32,
}

impl Content {
    pub(super) fn encode(&self) -> Bytes {
        let payload_bytes: usize = self.payloads.iter().map(|payload| payload.len() + 5).sum();
        let mut bytes = BytesMut::with_capacity(payload_bytes + 10);
        bytes.put_i32(VERSION);
        for payload in &self.payloads {
            bytes.put_u8(PAYLOAD);
            bytes.put_u32(u32::try_from(payload.len()).expect("checked against the item's limit"));
            bytes.put_slice(payload);
        }
        bytes.put_u8(END);
        if self.deliveries > 0 {
            bytes.put_u8(DELIVERIES);
            bytes.put_u32(self.deliveries);
        }
        bytes.freeze()
    }

    /// Decodes an item. The payloads are views of `bytes`.
    pub(super) fn decode(mut bytes: Bytes) -> Result<Self, String> {
        let version = bytes.try_get_i32().map_err(|_| "no version")?;
        if version != VERSION {
            return Err(format!("version {version:#010x} is not {VERSION:#010x}"));
        }
        let mut payloads = Vec::new();
        loop {
            match bytes.try_get_u8().map_err(|_| "no end")? {
                PAYLOAD => payloads.push(decode_payload(&mut bytes)?),
                END => break,
                other => return Err(format!("unknown part {other}")),
            }
        }
        let deliveries = match bytes.try_get_u8() {
            Ok(DELIVERIES) => bytes.try_get_u32().unwrap_or_default(),
            _ => 0,
        };
        Ok(Content { payloads, deliveries })
    }
}

fn decode_payload(bytes: &mut Bytes) -> Result<Bytes, String> {
    let length = bytes.try_get_i32().map_err(|_| "a payload without length")?;
    let length = usize::try_from(length).map_err(|_| format!("a payload of {length} bytes"))?;
    if length > bytes.len() {
        return Err(format!("a payload of {length} bytes where {} are left", bytes.len()));
    }
    Ok(bytes.split_to(length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_item_is_written_as_curator_writes_it() {
        let content = Content { payloads: vec![Bytes::from_static(b"ab")], deliveries: 0 };
        let bytes = [0, 1, 0, 1, 1, 0, 0, 0, 2, b'a', b'b', 2];
        assert_eq!(content.encode(), &bytes[..]);
        let with_more = [&bytes[..], b"\x09anything"].concat();
        assert_eq!(Content::decode(with_more.into()), Ok(content));
    }

    #[test]
    fn data_that_is_not_an_item_is_refused_with_a_reason() {
        for (bytes, reason) in [
            (&b""[..], "no version"),
            (b"\0\x01\0\x02\x02", "version 0x00010002"),
            (b"\0\x01\0\x01", "no end"),
            (b"\0\x01\0\x01\x07", "unknown part 7"),
            (b"\0\x01\0\x01\x01\0\0\0", "without length"),
            (b"\0\x01\0\x01\x01\xff\xff\xff\xff\x02", "-1 bytes"),
            (b"\0\x01\0\x01\x01\0\0\0\x09\x02", "9 bytes where 1 are left"),
        ] {
            let error = Content::decode(Bytes::from_static(bytes)).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..5),
            deliveries: u32,
        ) {
            let payloads = payloads.into_iter().map(Bytes::from).collect();
            let content = Content { payloads, deliveries };
            prop_assert_eq!(Content::decode(content.encode()), Ok(content));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = Content::decode([&b"\0\x01\0\x01"[..], &bytes].concat().into());
        }
    }
}
