//! Multi requests and their results: a list of typed records between headers, closed by a header
//! that says "done". Apache: `MultiOperationRecord`, `MultiResponse`.

use crate::error_code::ErrorCode;
use crate::jute::{DecodeError, JuteReader, JuteWrite, Result};
use crate::op::OpCode;
use crate::request::{CreateMode, Lifetime, ReadRequest, WriteRequest};

/// The header before each operation and each result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultiHeader {
    /// The op's raw number.
    pub op: i32,
    /// Whether the list ends here.
    pub done: bool,
    /// A result's error; -1 in requests.
    pub error: i32,
}

impl MultiHeader {
    /// The header that ends the list.
    pub const END: MultiHeader = MultiHeader { op: -1, done: true, error: -1 };

    /// The header before an operation of a request.
    #[must_use]
    pub fn operation(op: OpCode) -> Self {
        MultiHeader { op: op.code(), done: false, error: -1 }
    }

    /// The header before a result.
    #[must_use]
    pub fn result(op: OpCode) -> Self {
        MultiHeader { op: op.code(), done: false, error: 0 }
    }

    /// Reads a header.
    pub fn decode(reader: &mut JuteReader<'_>) -> Result<Self> {
        Ok(MultiHeader { op: reader.int()?, done: reader.bool()?, error: reader.int()? })
    }

    /// Appends the header.
    pub fn encode(&self, out: &mut impl JuteWrite) {
        out.put_int(self.op);
        out.put_bool(self.done);
        out.put_int(self.error);
    }
}

/// Appends the result of an operation that failed, or that a failure elsewhere in the multi undid
/// (`None`: it was before the failure).
pub fn encode_error_result(error: Option<ErrorCode>, out: &mut impl JuteWrite) {
    let error = error.map_or(0, ErrorCode::code);
    MultiHeader { op: OpCode::Error.code(), done: false, error }.encode(out);
    out.put_int(error);
}

pub(crate) fn decode_writes<'a>(reader: &mut JuteReader<'a>) -> Result<Vec<WriteRequest<'a>>> {
    let mut writes = Vec::new();
    decode_list(reader, |op, reader| {
        let mut write = WriteRequest::decode_single(op, reader)
            .ok_or(DecodeError::Undefined { what: "multi op", value: op.code() })??;
        settle_create_op(op, &mut write)?;
        writes.push(write);
        Ok(())
    })?;
    Ok(writes)
}

/// Inside a multi the flags of a create decide its op, not only the op itself.
fn settle_create_op(op: OpCode, write: &mut WriteRequest<'_>) -> Result<()> {
    let WriteRequest::Create(create) = write else {
        return Ok(());
    };
    let undefined = DecodeError::Undefined { what: "create flags", value: create.flags };
    let mode = CreateMode::from_flags(create.flags);
    if op == OpCode::CreateTtl {
        let lifetime = mode.map(|mode| mode.lifetime);
        if lifetime != Some(Lifetime::Ttl) {
            // Without a TTL mode it is an ordinary create, or one of a container.
            create.ttl_ms = None;
            create.op = match lifetime {
                Some(Lifetime::Container) => OpCode::CreateContainer,
                _ => OpCode::Create,
            };
        }
        return Ok(());
    }
    match mode.ok_or(undefined)?.lifetime {
        Lifetime::Ttl => return Err(undefined),
        Lifetime::Container => create.op = OpCode::CreateContainer,
        Lifetime::Persistent | Lifetime::Ephemeral => {}
    }
    Ok(())
}

pub(crate) fn decode_reads<'a>(reader: &mut JuteReader<'a>) -> Result<Vec<ReadRequest<'a>>> {
    let mut reads = Vec::new();
    decode_list(reader, |op, reader| {
        let undefined = DecodeError::Undefined { what: "multiRead op", value: op.code() };
        let mut read = match op {
            OpCode::GetData | OpCode::GetChildren => {
                ReadRequest::decode(op, reader).ok_or(undefined)??
            }
            _ => return Err(undefined),
        };
        // A read inside a multiRead sets no watch, whatever its flag.
        if let ReadRequest::GetData { watch, .. } | ReadRequest::GetChildren { watch, .. } =
            &mut read
        {
            *watch = false;
        }
        reads.push(read);
        Ok(())
    })?;
    Ok(reads)
}

fn decode_list<'a>(
    reader: &mut JuteReader<'a>,
    mut element: impl FnMut(OpCode, &mut JuteReader<'a>) -> Result<()>,
) -> Result<()> {
    loop {
        let header = MultiHeader::decode(reader)?;
        if header.done {
            return Ok(());
        }
        let op = OpCode::from_code(header.op)
            .ok_or(DecodeError::Undefined { what: "multi op", value: header.op })?;
        element(op, reader)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::CreateRequest;

    /// The op that a create becomes inside a multi; `None` when the multi cannot be decoded.
    fn settled(op: OpCode, flags: i32) -> Option<(OpCode, Option<i64>)> {
        let ttl_ms = (op == OpCode::CreateTtl).then_some(5);
        let create =
            CreateRequest { op, path: "/a".into(), data: None, acl: Vec::new(), flags, ttl_ms };
        let mut bytes = Vec::new();
        WriteRequest::Multi(vec![WriteRequest::Create(create)]).encode(&mut bytes);
        match decode_writes(&mut JuteReader::new(&bytes)).ok()?.pop()? {
            WriteRequest::Create(create) => Some((create.op, create.ttl_ms)),
            other => unreachable!("{other:?} is not a create"),
        }
    }

    #[test]
    fn flags_decide_the_op_of_a_create_in_a_multi() {
        assert_eq!(settled(OpCode::Create2, 3), Some((OpCode::Create2, None)));
        assert_eq!(settled(OpCode::Create2, 4), Some((OpCode::CreateContainer, None)));
        assert_eq!(settled(OpCode::CreateContainer, 0), Some((OpCode::CreateContainer, None)));
        assert_eq!(settled(OpCode::Create, 5), None);
        assert_eq!(settled(OpCode::Create, 9), None);
        assert_eq!(settled(OpCode::CreateTtl, 6), Some((OpCode::CreateTtl, Some(5))));
        assert_eq!(settled(OpCode::CreateTtl, 0), Some((OpCode::Create, None)));
        assert_eq!(settled(OpCode::CreateTtl, 4), Some((OpCode::CreateContainer, None)));
        assert_eq!(settled(OpCode::CreateTtl, 9), Some((OpCode::Create, None)));
    }
}
