//! The number of a request in the header of its txn (`cxid`), by which a learner finds the request that a txn
//! answers.
//!
//! Clients number their requests themselves, and some start again from 1 on each connection. A txn that was
//! requested on an earlier connection of the same session, at this server or at another one, may still be
//! on its way when the next connection uses the same number. So only on the connection that opened a session
//! the client's numbers are used in txns, as in Apache. On every later connection of the session, the server
//! assigns the numbers: negative, which clients' numbers never are, with its own id in front.
//!
//! Invariant: two requests of one session that are in flight at the same time never have the same cxid.
//! Apache always uses the client's number, and sends a client that starts again from 1 the answer to another request
//! when its session has moved.

use herdsman_proto::Xid;

/// Who numbers the requests of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// The client: this is the first connection of its session.
    Client,
    /// The server.
    Server,
}

/// Bits of the counter, behind the sign and eight bits for the server's id.
const COUNTER_BITS: u32 = 23;

/// Assigns a server's numbers.
#[derive(Debug)]
pub struct Cxids {
    /// The sign and the server's id.
    prefix: i32,
    counter: u32,
}

impl Cxids {
    /// Begins with a different number after each start, because requests from before may still be in flight.
    #[must_use]
    pub fn new(server_id: u8, wall_ms: i64) -> Self {
        let counter = (wall_ms as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        Cxids { prefix: i32::MIN | (i32::from(server_id) << COUNTER_BITS), counter: counter as u32 }
    }

    /// Returns the cxid for a request that has this xid on its connection.
    pub fn number(&mut self, numbering: Numbering, xid: Xid) -> i32 {
        if numbering == Numbering::Client && xid.0 >= 0 {
            return xid.0;
        }
        self.counter = self.counter.wrapping_add(1) & ((1 << COUNTER_BITS) - 1);
        self.prefix | self.counter.cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_never_takes_a_number_of_a_client_or_of_another_server() {
        let wall_ms = 1_700_000_000_000;
        let [mut one, mut other] = [1, 255].map(|id| Cxids::new(id, wall_ms));
        let of = |cxids: &mut Cxids| cxids.number(Numbering::Server, Xid(7));
        let of_one: Vec<_> = (0..100_000).map(|_| of(&mut one)).collect();
        assert!(of_one.iter().all(|number| *number < 0));
        assert!(of_one.is_sorted() && of_one.windows(2).all(|pair| pair[0] != pair[1]));
        let of_other = of(&mut other);
        assert!(of_one.iter().all(|number| number >> COUNTER_BITS != of_other >> COUNTER_BITS));
        assert_eq!(one.number(Numbering::Client, Xid(7)), 7);
        assert!(one.number(Numbering::Client, Xid(-7)) < -7, "not all clients count up from 1");
    }
}
