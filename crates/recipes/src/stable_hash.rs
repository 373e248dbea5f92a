//! A hash that is the same in every process, on every machine and in every version.
//!
//! In: byte strings. Out: 64 well-mixed bits. Consistent hashing and rendezvous hashing work only if all processes
//! that compute them agree, so the standard library's seeded hasher is not suitable: this is FNV-1a followed by
//! MurmurHash3's 64-bit finalizer, which improves FNV's weak high bits. Changing it would move every key of every
//! user; the tests pin its values. Not a defence against keys that are chosen to collide.

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Hashes several parts with their boundaries: `["ab", "c"]` and `["a", "bc"]` differ.
pub(crate) fn stable_hash(parts: &[&[u8]]) -> u64 {
    let mut state = FNV_OFFSET;
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            // 0xff does not occur in UTF-8 text, so it cannot be part of a name.
            state = fnv1a(state, &[0xff]);
        }
        state = fnv1a(state, part);
    }
    mix(state)
}

fn fnv1a(state: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(state, |state, byte| (state ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}

fn mix(mut bits: u64) -> u64 {
    bits ^= bits >> 33;
    bits = bits.wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits ^= bits >> 33;
    bits = bits.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ (bits >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv_agrees_with_its_published_vectors() {
        assert_eq!(fnv1a(FNV_OFFSET, b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(FNV_OFFSET, b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(FNV_OFFSET, b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn the_values_never_change() {
        assert_eq!(stable_hash(&[]), 0xefd0_1f60_ba99_2926);
        assert_eq!(stable_hash(&[b"a"]), 0x82a2_a958_a9be_ce5b);
        assert_eq!(stable_hash(&[b"node-1", b"key"]), 0xc3e7_7965_8138_6d2e);
    }

    #[test]
    fn parts_are_kept_apart() {
        assert_ne!(stable_hash(&[b"ab", b"c"]), stable_hash(&[b"a", b"bc"]));
        assert_ne!(stable_hash(&[b"a", b""]), stable_hash(&[b"a"]));
    }
}
