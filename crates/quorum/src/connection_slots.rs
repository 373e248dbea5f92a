//! Limits the connections of one port, and decides which one is closed when there are too many.
//!
//! Any host can connect and send nothing. When all slots are taken, the oldest connection whose server is not
//! identified is closed, so a flood of such connections does not keep members out. A slot is free when the connection's
//! thread has ended, not when its socket is closed, so threads are bounded too.
//!
//! Any host can also claim to be a server. So servers that are not listed share a limit, and each member has one. When
//! too many connections claim to be one member, one of them that is not known to be in use is closed, from the address
//! that has most of them: a host that repeats a claim closes its own connections. While the port has as many slots as
//! these limits together and some for unidentified connections, no host can keep out a member with another address.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use herdsman_proto::ServerId;
use parking_lot::{Condvar, Mutex};

use super::threads::cut;
use herdsman_runtime::LimitedLog;

/// How long a new connection waits for the slot of a connection that is being closed.
const LEAVE_WAIT: Duration = Duration::from_millis(100);

/// What is known about the server behind a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Occupant {
    /// Nothing yet.
    Unidentified,
    /// A server that is not listed.
    Unlisted,
    /// It claims to be this member.
    Claims(ServerId),
    /// A member whose connection is in use.
    InUse,
}

/// The limits of one port for connections of identified servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerLimits {
    /// Connections that claim to be one member.
    pub per_member_max: usize,
    /// Connections of all servers that are not listed.
    pub unlisted_max: usize,
}

/// The slots of one port.
#[derive(Debug, Default)]
pub(crate) struct ConnectionSlots {
    taken: Mutex<Occupied>,
    freed: Condvar,
    warnings: LimitedLog,
}

#[derive(Debug, Default)]
struct Occupied {
    next: u64,
    /// Ordered by age.
    occupants: BTreeMap<u64, SlotEntry>,
}

/// What is known about the server, the connection, and the peer's address.
type SlotEntry = (Occupant, Weak<TcpStream>, SocketAddr);

/// A slot that is in use until this is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    id: u64,
}

impl ConnectionSlots {
    /// Takes a slot for an unidentified connection; `None` if identified servers use all of them.
    pub fn take(
        self: &Arc<Self>,
        stream: &Arc<TcpStream>,
        peer: SocketAddr,
        connections_max: usize,
    ) -> Option<ConnectionSlot> {
        let mut taken = self.taken.lock();
        if taken.occupants.len() >= connections_max && !self.make_room(&mut taken, connections_max)
        {
            drop(taken);
            self.warnings.warn(format_args!(
                "rejected a connection from {peer}: all {connections_max} connections of this port are in use"
            ));
            return None;
        }
        let id = taken.next;
        taken.next += 1;
        taken.occupants.insert(id, (Occupant::Unidentified, Arc::downgrade(stream), peer));
        Some(ConnectionSlot { slots: Arc::clone(self), id })
    }

    /// Marks the connection as in use, so that it is kept when there are too many. A server that is not listed still
    /// counts as unlisted.
    pub fn keep(&self, id: u64) {
        let mut taken = self.taken.lock();
        if taken.occupants.get(&id).is_some_and(|(occupant, ..)| *occupant != Occupant::Unlisted) {
            taken.set(id, Occupant::InUse);
        }
    }

    fn make_room(
        &self,
        taken: &mut parking_lot::MutexGuard<'_, Occupied>,
        connections_max: usize,
    ) -> bool {
        let oldest =
            taken.occupants.values().find(|(occupant, ..)| *occupant == Occupant::Unidentified);
        let Some((_, stream, peer)) = oldest else { return false };
        if let Some(stream) = stream.upgrade() {
            cut(&stream);
        }
        self.warnings.warn(format_args!(
            "all {connections_max} connections of this port are in use: closed the oldest unidentified one, from {peer}"
        ));
        let deadline = Instant::now() + LEAVE_WAIT;
        while taken.occupants.len() >= connections_max {
            if self.freed.wait_until(taken, deadline).timed_out() {
                return false;
            }
        }
        true
    }
}

impl Occupied {
    fn set(&mut self, id: u64, now: Occupant) {
        if let Some((occupant, ..)) = self.occupants.get_mut(&id) {
            *occupant = now;
        }
    }

    fn count(&self, is: impl Fn(Occupant) -> bool) -> usize {
        self.occupants.values().filter(|(occupant, ..)| is(*occupant)).count()
    }

    /// Of the other connections that claim to be this member, returns the one to close: the oldest from the address
    /// that has most of them, including the last one.
    fn claim_to_close(&self, member: ServerId, last: u64) -> Option<u64> {
        let claimants = || {
            let occupants = self.occupants.iter();
            occupants.filter(|(_, (occupant, ..))| *occupant == Occupant::Claims(member))
        };
        let count_from =
            |host: IpAddr| claimants().filter(|(_, (.., peer))| peer.ip() == host).count();
        let others = claimants().filter(|(id, _)| **id != last);
        let cut = others.max_by_key(|(id, (.., peer))| (count_from(peer.ip()), Reverse(**id)));
        cut.map(|(id, _)| *id)
    }
}

impl ConnectionSlot {
    /// Its id, for [`ConnectionSlots::keep`].
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Records that the server claims to be this member. If there are too many such claims, closes a connection that is
    /// not known to be in use.
    pub fn claim(&self, member: ServerId, limits: ServerLimits) {
        let mut taken = self.slots.taken.lock();
        taken.set(self.id, Occupant::Claims(member));
        if taken.count(|occupant| occupant == Occupant::Claims(member)) <= limits.per_member_max {
            return;
        }
        let cut_id = taken.claim_to_close(member, self.id);
        if let Some((occupant, stream, peer)) = cut_id.and_then(|id| taken.occupants.get_mut(&id)) {
            *occupant = Occupant::Unidentified;
            if let Some(stream) = stream.upgrade() {
                cut(&stream);
            }
            self.slots.warnings.warn(format_args!(
                "more than {} connections claim to be server {member}: closed one from {peer}",
                limits.per_member_max
            ));
        }
    }

    /// Records that the server is not listed. Returns false if there are too many of those.
    #[must_use]
    pub fn claim_unlisted(&self, limits: ServerLimits) -> bool {
        let mut taken = self.slots.taken.lock();
        let is_free = taken.count(|occupant| occupant == Occupant::Unlisted) < limits.unlisted_max;
        if is_free {
            taken.set(self.id, Occupant::Unlisted);
        }
        is_free
    }

    /// Marks the connection as in use, so that it is kept when there are too many.
    pub fn keep(&self) {
        self.slots.keep(self.id);
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.slots.taken.lock().occupants.remove(&self.id);
        self.slots.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    fn pair() -> (TcpStream, Arc<TcpStream>, SocketAddr) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (theirs, peer) = listener.accept().unwrap();
        (ours, Arc::new(theirs), peer)
    }

    #[test]
    fn the_oldest_unidentified_connection_is_closed() {
        let slots = Arc::new(ConnectionSlots::default());
        let (mut known_end, known, peer) = pair();
        let known_slot = slots.take(&known, peer, 2).unwrap();
        known_slot.keep();
        let (mut unidentified_end, unidentified, peer) = pair();
        let unidentified_slot = slots.take(&unidentified, peer, 2).unwrap();
        let (_end, third, peer) = pair();
        std::thread::scope(|scope| {
            // As a connection's thread does: it sees the end and frees its slot.
            scope.spawn(move || {
                assert_eq!((&*unidentified).read(&mut [0]).unwrap(), 0);
                drop(unidentified_slot);
            });
            // A slow machine may need more than one try.
            while slots.take(&third, peer, 2).is_none() {}
        });
        assert_eq!(unidentified_end.read(&mut [0]).unwrap(), 0);
        known_end.set_nonblocking(true).unwrap();
        assert!(known_end.read(&mut [0]).is_err());
    }

    const LIMITS: ServerLimits = ServerLimits { per_member_max: 2, unlisted_max: 2 };

    fn is_cut(end: &mut TcpStream) -> bool {
        end.set_nonblocking(true).unwrap();
        matches!(end.read(&mut [0]), Ok(0))
    }

    #[test]
    fn of_those_that_claim_to_be_one_member_the_oldest_not_in_use_is_closed() {
        let slots = Arc::new(ConnectionSlots::default());
        let mut occupants: Vec<_> = (0..4).map(|_| pair()).collect();
        let taken: Vec<_> = occupants
            .iter()
            .map(|(_, stream, peer)| slots.take(stream, *peer, 9).unwrap())
            .collect();
        taken[0].claim(ServerId(3), LIMITS);
        slots.keep(taken[0].id());
        for slot in &taken[1..] {
            slot.claim(ServerId(3), LIMITS);
        }
        let cut: Vec<_> = occupants.iter_mut().map(|(end, ..)| is_cut(end)).collect();
        assert_eq!(cut, [false, true, false, false]);
    }

    #[test]
    fn a_host_that_repeats_a_claim_closes_its_own_connections() {
        for members_turn in 0..4 {
            let slots = Arc::new(ConnectionSlots::default());
            let mut occupants: Vec<_> = (0..8).map(|_| pair()).collect();
            let mut taken = Vec::new();
            for (turn, (_, stream, peer)) in occupants.iter().enumerate() {
                let mut peer = *peer;
                if turn == members_turn {
                    peer.set_ip([127, 0, 0, 2].into());
                }
                let slot = slots.take(stream, peer, 9).unwrap();
                slot.claim(ServerId(3), LIMITS);
                taken.push(slot);
            }
            let cut: Vec<_> = occupants.iter_mut().map(|(end, ..)| is_cut(end)).collect();
            assert!(!cut[members_turn], "{cut:?}");
            assert_eq!(cut.iter().filter(|cut| !**cut).count(), LIMITS.per_member_max);
        }
    }

    #[test]
    fn servers_that_are_not_listed_have_their_own_limit() {
        let slots = Arc::new(ConnectionSlots::default());
        let (_end, stream, peer) = pair();
        let taken: Vec<_> = (0..4).map(|_| slots.take(&stream, peer, 9).unwrap()).collect();
        let claimed = taken[..3].iter().map(|slot| slot.claim_unlisted(LIMITS));
        assert_eq!(claimed.collect::<Vec<_>>(), [true, true, false]);
        slots.keep(taken[0].id());
        assert!(!taken[2].claim_unlisted(LIMITS), "also those that are up to date count");
    }

    #[test]
    fn no_connection_is_accepted_when_all_are_in_use() {
        let slots = Arc::new(ConnectionSlots::default());
        let (_end, stream, peer) = pair();
        let slot = slots.take(&stream, peer, 1).unwrap();
        slot.keep();
        assert!(slots.take(&stream, peer, 1).is_none());
        drop(slot);
        assert!(slots.take(&stream, peer, 1).is_some());
    }
}
