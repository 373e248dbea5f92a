//! Values that can be checked: the key's number, the writer's count, and a pattern derived from both.
//!
//! A reader can detect from the value alone that it belongs to another znode, is a mixture of two values, or was
//! never written. Short values contain as much of that as fits.

use crate::load::{Checked, WrongReply};

const NUMBER_BYTES: usize = 8;
const HEAD_BYTES: usize = 2 * NUMBER_BYTES;

/// Fills `out` with the value of the `count`th write to the znode with this key.
pub(crate) fn write_value(key: u32, count: u64, out: &mut [u8]) {
    for (chunk, word) in out.chunks_mut(NUMBER_BYTES).zip(words(key, count)) {
        chunk.copy_from_slice(&word.to_be_bytes()[..chunk.len()]);
    }
}

/// Checks a value that was read from the znode with this key.
pub(crate) fn check_value(key: u32, value_bytes: usize, value: &[u8]) -> Checked<()> {
    if value.len() != value_bytes {
        let found = value.len();
        return Err(WrongReply::new(format!("the value has {found} bytes and not {value_bytes}")));
    }
    if value.len() < HEAD_BYTES {
        let number = u64::from(key).to_be_bytes();
        let known = value.len().min(NUMBER_BYTES);
        return check(value[..known] == number[..known], "the value is of another znode");
    }
    let (head, rest) = value.split_at(HEAD_BYTES);
    let (number, count) = head.split_at(NUMBER_BYTES);
    check(number == u64::from(key).to_be_bytes(), "the value is of another znode")?;
    let count = u64::from_be_bytes(count.try_into().expect("the head is two numbers"));
    let mut chunks = rest.chunks_exact(NUMBER_BYTES);
    let mut pattern = words(key, count).skip(2);
    let whole = chunks.by_ref().zip(&mut pattern).all(|(chunk, word)| chunk == word.to_be_bytes());
    let last = chunks.remainder();
    let word = words(key, count).nth(value.len() / NUMBER_BYTES).unwrap_or_default();
    check(
        whole && *last == word.to_be_bytes()[..last.len()],
        "the value is a mixture of two values, or was never written",
    )
}

fn check(holds: bool, otherwise: &str) -> Checked<()> {
    if holds { Ok(()) } else { Err(WrongReply::new(otherwise)) }
}

/// Returns the value as numbers: key, count, then a sequence that begins with a mixture of both.
fn words(key: u32, count: u64) -> impl Iterator<Item = u64> {
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
    let start = (u64::from(key) << 32 ^ count).wrapping_mul(STEP);
    let walk = (1u64..).map(move |step| start.wrapping_add(step.wrapping_mul(STEP)));
    [u64::from(key), count].into_iter().chain(walk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_right_for_its_key_only() {
        for bytes in [0, 1, 7, 8, 9, 15, 16, 17, 24, 99, 100, 1000] {
            let mut value = vec![0; bytes];
            write_value(0x0102_0304, 9, &mut value);
            assert_eq!(check_value(0x0102_0304, bytes, &value), Ok(()), "{bytes}");
            assert!(check_value(0x0102_0304, bytes + 1, &value).is_err(), "{bytes}");
            if bytes >= NUMBER_BYTES {
                assert!(check_value(0x0102_0305, bytes, &value).is_err(), "{bytes}");
            }
        }
    }

    #[test]
    fn every_flipped_byte_of_a_value_is_detected() {
        let mut value = vec![0; 103];
        write_value(5, 77, &mut value);
        for at in 0..value.len() {
            value[at] ^= 1;
            assert!(check_value(5, 103, &value).is_err(), "byte {at}");
            value[at] ^= 1;
        }
    }

    #[test]
    fn two_writes_of_one_key_do_not_mix() {
        let (mut one, mut other) = (vec![0; 100], vec![0; 100]);
        write_value(5, 1, &mut one);
        write_value(5, 2, &mut other);
        one[50..].copy_from_slice(&other[50..]);
        assert!(check_value(5, 100, &one).is_err());
    }
}
