//! Requests that are encoded once: afterwards only the xid, the leaf's number and the value are replaced.

use herdsman_proto::request::RequestHeader;
use herdsman_proto::{Request, Xid, reply};

use crate::names::{Family, TAIL_BYTES};
use crate::values::write_value;

/// The position of the xid in a frame: after the length.
const XID_AT: usize = 4;

/// The byte of the value in a template; it must not occur elsewhere in the frame.
const PLACEHOLDER: u8 = 0xA5;

/// An encoded request of a family, without its numbers.
pub(crate) struct Template {
    family: Family,
    frame: Vec<u8>,
    /// The positions of the ends of paths.
    tails_at: Vec<usize>,
    value_at: Option<usize>,
    value_bytes: usize,
}

impl Template {
    /// Creates a template; `make` gets the path of a leaf and a value, and returns the request.
    pub(crate) fn new(
        family: &Family,
        value_bytes: usize,
        make: impl for<'a> FnOnce(&'a str, &'a [u8]) -> Request<'a>,
    ) -> Self {
        let (path, value) = (family.leaf_path(0), vec![PLACEHOLDER; value_bytes]);
        let frame = frame_of(0, &make(&path, &value));
        let tail_offset = path.len() - TAIL_BYTES;
        let tails_at = positions(&frame, path.as_bytes()).map(|at| at + tail_offset).collect();
        let value_at = if value_bytes == 0 { None } else { positions(&frame, &value).next() };
        Template { family: family.clone(), frame, tails_at, value_at, value_bytes }
    }

    /// Appends the request for a leaf; `count` becomes part of the value, if there is one.
    pub(crate) fn append(&self, xid: i32, number: u32, count: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.frame);
        let frame = &mut out[start..];
        frame[XID_AT..XID_AT + 4].copy_from_slice(&xid.to_be_bytes());
        for &at in &self.tails_at {
            if let Some(tail) = frame[at..].first_chunk_mut::<TAIL_BYTES>() {
                self.family.patch_tail(number, tail);
            }
        }
        if let Some(at) = self.value_at {
            write_value(number, count, &mut frame[at..at + self.value_bytes]);
        }
    }

    /// Returns the family of the leaves.
    pub(crate) fn family(&self) -> &Family {
        &self.family
    }
}

/// Encodes a request.
pub(crate) fn frame_of(xid: i32, request: &Request<'_>) -> Vec<u8> {
    let mut frame = Vec::new();
    append_frame(xid, request, &mut frame);
    frame
}

/// Appends an encoded request.
pub(crate) fn append_frame(xid: i32, request: &Request<'_>, out: &mut Vec<u8>) {
    reply::frame(out, |out| {
        RequestHeader { xid: Xid(xid), op: request.op().code() }.encode(out);
        request.encode(out);
    });
}

fn positions<'a>(frame: &'a [u8], wanted: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    frame
        .windows(wanted.len())
        .enumerate()
        .filter(move |(_, share)| *share == wanted)
        .map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use herdsman_proto::WriteRequest;

    #[test]
    fn a_patched_frame_equals_a_newly_encoded_request() {
        let family = Family::new("/bench", "keys", 10);
        let make = |path: &str, value: &[u8]| {
            let path = path.to_owned();
            let check = WriteRequest::Check { path: path.clone().into(), version: -1 };
            let data = Some(value);
            let set = WriteRequest::SetData { path: path.into(), data, version: -1 };
            frame_of(77, &Request::Write(WriteRequest::Multi(vec![check, set])))
        };
        for value_bytes in [0, 3, 100] {
            let template = Template::new(&family, value_bytes, |path, value| {
                let check = WriteRequest::Check { path: path.into(), version: -1 };
                let set =
                    WriteRequest::SetData { path: path.into(), data: Some(value), version: -1 };
                Request::Write(WriteRequest::Multi(vec![check, set]))
            });
            let mut out = b"before".to_vec();
            template.append(77, 1234, 9, &mut out);
            let mut value = vec![0; value_bytes];
            write_value(1234, 9, &mut value);
            assert_eq!(out[6..], make(&family.leaf_path(1234), &value), "{value_bytes}");
        }
    }
}
