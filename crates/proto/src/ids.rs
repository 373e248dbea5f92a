//! Ids on the wire and on disk, each with its own type.

use std::fmt;

/// Epochs are below this one, so that zxids are never negative and there is always an epoch after one that was
/// promised.
pub const EPOCH_MAX: u32 = i32::MAX as u32;

/// The position of a txn in the total order: `epoch << 32 | counter`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zxid(pub i64);

impl Zxid {
    /// Before every txn.
    pub const ZERO: Zxid = Zxid(0);

    /// The leader term in which the txn was proposed.
    #[must_use]
    pub fn epoch(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The position inside the epoch; 0 is never a txn.
    #[must_use]
    pub fn counter(self) -> u32 {
        self.0 as u32
    }

    /// Where an epoch starts: before its first txn.
    #[must_use]
    pub fn start_of(epoch: u32) -> Zxid {
        assert!(epoch <= EPOCH_MAX, "epoch {epoch} has no zxids");
        Zxid(i64::from(epoch) << 32)
    }

    /// The zxid after this one. Only a standalone server carries over into the epoch. There is none after the last
    /// possible one.
    #[must_use]
    pub fn next(self) -> Zxid {
        Zxid(self.0.saturating_add(1))
    }

    /// Whether `next` can be the txn right after this one: the next of its epoch, or the first of a later one.
    #[must_use]
    pub fn is_continued_by(self, next: Zxid) -> bool {
        let begins_epoch = next.epoch() > self.epoch() && next.counter() == 1;
        next > self && (next == self.next() || begins_epoch)
    }
}

impl fmt::Display for Zxid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:x}", self.0)
    }
}

/// The number of a server: its `myid`, the N of its `server.N` line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub i64);

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A client session. The high byte is the id of the server that opened it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub i64);

impl SessionId {
    /// No session. In a connect request it means "open a new session".
    pub const NONE: SessionId = SessionId(0);

    /// The session's password as Apache computes it: a pure function of the id, so that every server of an
    /// ensemble accepts a session opened by another one, and so that anyone who knows the id knows the
    /// password. The mixing is `java.util.Random`'s. Apache: `ZooKeeperServer.generatePasswd`.
    #[must_use]
    #[expect(clippy::little_endian_bytes, reason = "Random.nextBytes emits the low byte first")]
    pub fn apache_password(self) -> [u8; 16] {
        const SECRET: i64 = 0xB341_5C00;
        const MULTIPLIER: u64 = 0x5_DEEC_E66D;
        const MASK: u64 = (1 << 48) - 1;
        let mut state = ((self.0 ^ SECRET) as u64 ^ MULTIPLIER) & MASK;
        let mut password = [0; 16];
        for word in password.chunks_exact_mut(4) {
            state = state.wrapping_mul(MULTIPLIER).wrapping_add(0xB) & MASK;
            word.copy_from_slice(&((state >> 16) as u32).to_le_bytes());
        }
        password
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:x}", self.0)
    }
}

/// The client's number for a request; the reply carries it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xid(pub i32);

impl Xid {
    /// A watch event, sent without a request.
    pub const NOTIFICATION: Xid = Xid(-1);
    /// A heartbeat and its reply.
    pub const PING: Xid = Xid(-2);
    /// An auth packet and its reply.
    pub const AUTH: Xid = Xid(-4);
    /// Re-registration of watches after a reconnect.
    pub const SET_WATCHES: Xid = Xid(-8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of Java's own `new Random(id ^ 0xB3415C00L).nextBytes(16)`. The generator keeps 48
    /// bits, so the second and the last but one differ only above them.
    #[test]
    fn password_is_what_a_java_server_computes() {
        for (id, expected) in [
            (0, 0xf22a_cd4a_97e6_9d6d_20a4_9bb6_38ea_db38),
            (-1, 0x20f6_2cb5_648d_c2d7_7147_1c8a_2486_a9ee),
            (1, 0x054c_c74a_3732_7db2_15e7_02e2_0c73_f005),
            (0x0100_004a_b2c3_0000, 0x1f00_9f88_c018_f8d0_95d5_dfd8_0917_3022),
            (i64::MAX, 0x20f6_2cb5_648d_c2d7_7147_1c8a_2486_a9ee),
            (0xff00_0000_0000_1234_u64 as i64, 0x3c18_abe0_5b0e_6182_741d_625d_127c_15b0_u128),
        ] {
            assert_eq!(u128::from_be_bytes(SessionId(id).apache_password()), expected, "{id:#x}");
        }
    }

    #[test]
    fn zxid_splits_into_epoch_and_counter() {
        let zxid = Zxid(0x0000_0003_0000_0007);
        assert_eq!((zxid.epoch(), zxid.counter()), (3, 7));
        assert_eq!(zxid.to_string(), "0x300000007");
    }

    #[test]
    fn only_the_next_txn_continues_a_history() {
        let zxid = |epoch, counter: i64| Zxid(Zxid::start_of(epoch).0 | counter);
        for (last, next, fits) in [
            (zxid(1, 1), zxid(1, 2), true),
            (zxid(1, 1), zxid(1, 3), false),
            (zxid(1, 1), zxid(1, 1), false),
            (zxid(1, 9), zxid(2, 1), true),
            (zxid(1, 9), zxid(4, 1), true),
            (zxid(1, 9), zxid(2, 2), false),
            (zxid(1, 0xffff_ffff), zxid(2, 0), true),
            (zxid(2, 0), zxid(2, 1), true),
            (zxid(2, 1), zxid(1, 2), false),
            (Zxid::ZERO, zxid(0, 1), true),
            (zxid(1, 9), Zxid(i64::MIN | 1), false),
            (Zxid(i64::MAX), Zxid(i64::MAX), false),
        ] {
            assert_eq!(last.is_continued_by(next), fits, "{last} {next}");
        }
    }

    #[test]
    fn zxids_do_not_wrap() {
        assert_eq!(Zxid(i64::MAX).next(), Zxid(i64::MAX));
        assert!(Zxid::start_of(EPOCH_MAX) > Zxid::start_of(EPOCH_MAX - 1));
    }
}
