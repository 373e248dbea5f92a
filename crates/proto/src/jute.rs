//! The jute encoding: big-endian integers, length-prefixed strings and buffers, counted vectors.
//!
//! Strings: Java writes each UTF-16 unit as its own group of bytes but reads real UTF-8, replacing
//! invalid bytes. [`JuteReader::string`] does the same, so a broken path is rejected by the path
//! rules, with Apache's error code, and not by the decoder.

use std::borrow::Cow;

/// An error of decoding a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes ended in the middle of a field.
    #[error("record ends after {available} of {wanted} bytes")]
    Truncated {
        /// Bytes the field needs.
        wanted: usize,
        /// Bytes that were left.
        available: usize,
    },
    /// A length is negative (other than -1, which means null) or above the limit.
    #[error("length {0} is out of range")]
    Length(i32),
    /// A required field is null.
    #[error("a required field is null")]
    Null,
    /// A number is not one of the defined values.
    #[error("{what} {value} is not defined")]
    Undefined {
        /// Name of the field.
        what: &'static str,
        /// Its value.
        value: i32,
    },
    /// A txn is followed by unknown bytes.
    #[error("{0} bytes follow the record")]
    Trailing(usize),
}

/// Shorthand for decoding results.
pub type Result<T> = std::result::Result<T, DecodeError>;

/// Reads jute values from the front of a slice.
#[derive(Clone, Copy, Debug)]
pub struct JuteReader<'a> {
    rest: &'a [u8],
    field_bytes_max: usize,
}

impl<'a> JuteReader<'a> {
    /// A reader whose strings and buffers are limited only by the input.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self::with_limit(bytes, i32::MAX as usize)
    }

    /// A reader that refuses strings and buffers longer than `field_bytes_max`.
    #[must_use]
    pub fn with_limit(bytes: &'a [u8], field_bytes_max: usize) -> Self {
        JuteReader { rest: bytes, field_bytes_max }
    }

    /// The bytes that are not read yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether all bytes are read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The longest string or buffer that is accepted.
    #[must_use]
    pub fn field_bytes_max(&self) -> usize {
        self.field_bytes_max
    }

    /// A reader of the next `bytes_max` bytes, or of all that are left if there are fewer.
    #[must_use]
    pub fn window(&self, bytes_max: usize) -> Self {
        JuteReader { rest: &self.rest[..bytes_max.min(self.rest.len())], ..*self }
    }

    /// Skips bytes.
    pub fn skip(&mut self, bytes: usize) -> Result<()> {
        self.take(bytes).map(|_| ())
    }

    fn take(&mut self, wanted: usize) -> Result<&'a [u8]> {
        let available = self.rest.len();
        let (head, tail) = self
            .rest
            .split_at_checked(wanted)
            .ok_or(DecodeError::Truncated { wanted, available })?;
        self.rest = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let available = self.rest.len();
        let (head, tail) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or(DecodeError::Truncated { wanted: N, available })?;
        self.rest = tail;
        Ok(*head)
    }

    /// A byte.
    pub fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// A boolean: any byte but 0 is true.
    pub fn bool(&mut self) -> Result<bool> {
        Ok(self.byte()? != 0)
    }

    /// A 32-bit integer.
    pub fn int(&mut self) -> Result<i32> {
        self.array().map(i32::from_be_bytes)
    }

    /// A 64-bit integer.
    pub fn long(&mut self) -> Result<i64> {
        self.array().map(i64::from_be_bytes)
    }

    /// Bytes; `None` is jute's null.
    pub fn buffer(&mut self) -> Result<Option<&'a [u8]>> {
        let length = self.int()?;
        if length == -1 {
            return Ok(None);
        }
        let bytes = usize::try_from(length).map_err(|_| DecodeError::Length(length))?;
        if bytes > self.field_bytes_max {
            return Err(DecodeError::Length(length));
        }
        self.take(bytes).map(Some)
    }

    /// Text; `None` is jute's null. Bytes that are not UTF-8 become U+FFFD, as in Java.
    pub fn string(&mut self) -> Result<Option<Cow<'a, str>>> {
        // Nearly all strings are UTF-8, and a check is faster than a lossy conversion.
        let text = |bytes| {
            str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
        };
        Ok(self.buffer()?.map(text))
    }

    /// Text that must not be null.
    pub fn required_string(&mut self) -> Result<Cow<'a, str>> {
        self.string()?.ok_or(DecodeError::Null)
    }

    /// A vector; jute's null and, as in Java, any other negative count are empty. Grows with the
    /// elements that are really there, never with the count that the sender claims.
    pub fn vector<T>(&mut self, mut element: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.int()?;
        let mut elements = Vec::new();
        for _ in 0..count.max(0) {
            elements.push(element(self)?);
        }
        Ok(elements)
    }
}

/// Appends jute values to a buffer.
pub trait JuteWrite {
    /// Appends raw bytes.
    fn put_raw(&mut self, bytes: &[u8]);

    /// A byte.
    fn put_byte(&mut self, value: u8) {
        self.put_raw(&[value]);
    }

    /// A boolean.
    fn put_bool(&mut self, value: bool) {
        self.put_byte(u8::from(value));
    }

    /// A 32-bit integer.
    fn put_int(&mut self, value: i32) {
        self.put_raw(&value.to_be_bytes());
    }

    /// A 64-bit integer.
    fn put_long(&mut self, value: i64) {
        self.put_raw(&value.to_be_bytes());
    }

    /// A length or count that goes before its elements.
    fn put_count(&mut self, count: usize) {
        self.put_int(i32::try_from(count).expect("nothing we encode holds 2^31 elements"));
    }

    /// Bytes, or null.
    fn put_buffer(&mut self, value: Option<&[u8]>) {
        match value {
            None => self.put_int(-1),
            Some(bytes) => {
                self.put_count(bytes.len());
                self.put_raw(bytes);
            }
        }
    }

    /// Text.
    fn put_string(&mut self, value: &str) {
        self.put_buffer(Some(value.as_bytes()));
    }

    /// A counted list.
    fn put_vector<T>(&mut self, elements: &[T], mut put: impl FnMut(&mut Self, &T)) {
        self.put_count(elements.len());
        for element in elements {
            put(self, element);
        }
    }
}

impl JuteWrite for Vec<u8> {
    #[inline]
    fn put_raw(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// A buffer of a fixed size, filled from its front. Panics if the values do not fit.
impl JuteWrite for &mut [u8] {
    #[inline]
    fn put_raw(&mut self, bytes: &[u8]) {
        let (room, rest) = std::mem::take(self).split_at_mut(bytes.len());
        room.copy_from_slice(bytes);
        *self = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        let mut out = Vec::new();
        out.put_int(-7);
        out.put_long(i64::MIN);
        out.put_bool(true);
        out.put_string("zürich");
        out.put_buffer(None);
        out.put_vector(&["a", "b"], |out, s| out.put_string(s));
        let mut reader = JuteReader::new(&out);
        assert_eq!(reader.int(), Ok(-7));
        assert_eq!(reader.long(), Ok(i64::MIN));
        assert_eq!(reader.bool(), Ok(true));
        assert_eq!(reader.required_string().as_deref(), Ok("zürich"));
        assert_eq!(reader.buffer(), Ok(None));
        assert_eq!(reader.vector(JuteReader::required_string), Ok(vec!["a".into(), "b".into()]));
        assert!(reader.is_empty());
    }

    #[test]
    fn lengths_are_checked_before_anything_is_believed() {
        let check =
            |bytes: &[u8], expected| assert_eq!(JuteReader::new(bytes).buffer(), Err(expected));
        check(&[0, 0], DecodeError::Truncated { wanted: 4, available: 2 });
        check(&(-2i32).to_be_bytes(), DecodeError::Length(-2));
        check(
            &i32::MAX.to_be_bytes(),
            DecodeError::Truncated { wanted: i32::MAX as usize, available: 0 },
        );
        let long = [0, 0, 0, 3, 1, 2, 3];
        assert_eq!(JuteReader::with_limit(&long, 2).buffer(), Err(DecodeError::Length(3)));
        let two_billion = i32::MAX.to_be_bytes();
        assert!(JuteReader::new(&two_billion).vector(JuteReader::int).is_err());
    }

    #[test]
    fn broken_utf8_is_replaced_as_java_does() {
        let bytes = [0, 0, 0, 3, b'/', 0xff, b'a'];
        assert_eq!(JuteReader::new(&bytes).required_string().as_deref(), Ok("/\u{fffd}a"));
    }
}
