//! Jute, the encoding of every ZooKeeper record: big-endian numbers, length-prefixed bytes, -1 for
//! absent.

use anyhow::{Context, Result, ensure};

/// Builds a record.
#[derive(Default)]
pub struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// Appends a 4-byte integer.
    pub fn int(&mut self, value: i32) -> &mut Encoder {
        self.bytes.extend(value.to_be_bytes());
        self
    }

    /// Appends an 8-byte integer.
    pub fn long(&mut self, value: i64) -> &mut Encoder {
        self.bytes.extend(value.to_be_bytes());
        self
    }

    /// Appends a boolean.
    pub fn boolean(&mut self, value: bool) -> &mut Encoder {
        self.bytes.push(u8::from(value));
        self
    }

    /// Appends bytes, or the mark for "absent".
    pub fn buffer(&mut self, value: Option<&[u8]>) -> &mut Encoder {
        match value {
            None => self.int(-1),
            Some(value) => {
                self.count(value.len());
                self.bytes.extend(value);
                self
            }
        }
    }

    /// Appends text.
    pub fn string(&mut self, value: &str) -> &mut Encoder {
        self.buffer(Some(value.as_bytes()))
    }

    /// Appends a length or the number of a vector's elements.
    pub fn count(&mut self, count: usize) -> &mut Encoder {
        self.int(i32::try_from(count).expect("test records are far below 2 GiB"))
    }

    /// The record so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads a record.
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Decoder<'a> {
        Decoder { rest: bytes }
    }

    /// The unread bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes this many raw bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        ensure!(self.rest.len() >= count, "record ends {} bytes early", count - self.rest.len());
        let (taken, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(taken)
    }

    /// Takes a 4-byte integer.
    pub fn int(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.take(4)?.try_into()?))
    }

    /// Takes an 8-byte integer.
    pub fn long(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.take(8)?.try_into()?))
    }

    /// Takes bytes; `None` if they are absent.
    pub fn buffer(&mut self) -> Result<Option<Vec<u8>>> {
        let length = self.int()?;
        if length == -1 {
            return Ok(None);
        }
        let length = usize::try_from(length).context("negative length")?;
        Ok(Some(self.take(length)?.to_vec()))
    }

    /// Takes text.
    pub fn string(&mut self) -> Result<String> {
        let bytes = self.buffer()?.context("absent text")?;
        String::from_utf8(bytes).context("text that is not UTF-8")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip() {
        let mut record = Encoder::default();
        record.boolean(true).int(-2).long(i64::MIN).buffer(None).buffer(Some(b"")).string("/ü");
        let mut read = Decoder::new(record.bytes());
        assert_eq!(read.take(1).unwrap(), [1]);
        assert_eq!(read.int().unwrap(), -2);
        assert_eq!(read.long().unwrap(), i64::MIN);
        assert_eq!(read.buffer().unwrap(), None);
        assert_eq!(read.buffer().unwrap(), Some(Vec::new()));
        assert_eq!(read.string().unwrap(), "/ü");
        assert!(read.int().is_err());
    }
}
