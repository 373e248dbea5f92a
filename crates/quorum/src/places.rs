//! How many connections a port has at a time, and who has to go when there are too many.
//!
//! Anybody can connect and say nothing. When all places are taken, the connection that has been
//! here longest without being somebody is cut, so a flood of strangers does not keep members out. A
//! place is free when the connection's thread has ended, not when its socket is cut, so threads are
//! bounded too.
//!
//! Anybody can also say that it is a server. So those that are not listed have a limit of their own, and so has each
//! member. If too many say that they are one member, a connection goes that is not known to be in use, from the address
//! that has most of them: whoever says so over and over cuts its own connections. As long as all places are as many as
//! these limits together and some for strangers, no host keeps a member out that has another address.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use herdsman_proto::ServerId;
use parking_lot::{Condvar, Mutex};

use super::threads::cut;
use herdsman_runtime::LimitedLog;

/// How long a newcomer waits for the one that was cut.
const LEAVE_WAIT: Duration = Duration::from_millis(100);

/// Who is behind a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guest {
    /// Nobody knows yet.
    Stranger,
    /// A server that is not listed.
    Unlisted,
    /// It says that it is this member.
    Claimant(ServerId),
    /// One that the others would miss.
    Known,
}

/// Connections of one port that say they are servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerLimits {
    /// Of each member.
    pub per_member_max: usize,
    /// Of all that are not listed.
    pub unlisted_max: usize,
}

/// The places of one port.
#[derive(Debug, Default)]
pub(crate) struct Places {
    taken: Mutex<Taken>,
    freed: Condvar,
    warnings: LimitedLog,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    /// In the order of their coming.
    guests: BTreeMap<u64, Visit>,
}

/// Who is behind a connection, the connection, and where it comes from.
type Visit = (Guest, Weak<TcpStream>, SocketAddr);

/// A place that is taken until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    id: u64,
}

impl Places {
    /// Takes a place for a stranger; `None` if all are taken by known guests.
    pub fn take(
        self: &Arc<Self>,
        stream: &Arc<TcpStream>,
        peer: SocketAddr,
        places_max: usize,
    ) -> Option<Place> {
        let mut taken = self.taken.lock();
        if taken.guests.len() >= places_max && !self.make_room(&mut taken, places_max) {
            drop(taken);
            self.warnings
                .warn(format_args!("refused a connection from {peer}: all {places_max} connections of this port are in use"));
            return None;
        }
        let id = taken.next;
        taken.next += 1;
        taken.guests.insert(id, (Guest::Stranger, Arc::downgrade(stream), peer));
        Some(Place { places: Arc::clone(self), id })
    }

    /// The guest at this place is somebody: it stays when there are too many. A server that is not listed counts as
    /// such whatever it does.
    pub fn keep(&self, id: u64) {
        let mut taken = self.taken.lock();
        if taken.guests.get(&id).is_some_and(|(guest, ..)| *guest != Guest::Unlisted) {
            taken.set(id, Guest::Known);
        }
    }

    fn make_room(&self, taken: &mut parking_lot::MutexGuard<'_, Taken>, places_max: usize) -> bool {
        let oldest = taken.guests.values().find(|(guest, ..)| *guest == Guest::Stranger);
        let Some((_, stream, peer)) = oldest else { return false };
        if let Some(stream) = stream.upgrade() {
            cut(&stream);
        }
        self.warnings.warn(format_args!(
            "all {places_max} connections of this port are in use: closed the oldest one that has not said who it is, from {peer}"
        ));
        let deadline = Instant::now() + LEAVE_WAIT;
        while taken.guests.len() >= places_max {
            if self.freed.wait_until(taken, deadline).timed_out() {
                return false;
            }
        }
        true
    }
}

impl Taken {
    fn set(&mut self, id: u64, now: Guest) {
        if let Some((guest, ..)) = self.guests.get_mut(&id) {
            *guest = now;
        }
    }

    fn count(&self, is: impl Fn(Guest) -> bool) -> usize {
        self.guests.values().filter(|(guest, ..)| is(*guest)).count()
    }

    /// Of the other connections that say they are this member, the one to cut: the oldest from the address that has
    /// most of them, the last one included.
    fn claimant_to_cut(&self, member: ServerId, last: u64) -> Option<u64> {
        let claimants = || {
            let guests = self.guests.iter();
            guests.filter(|(_, (guest, ..))| *guest == Guest::Claimant(member))
        };
        let count_from =
            |host: IpAddr| claimants().filter(|(_, (.., peer))| peer.ip() == host).count();
        let others = claimants().filter(|(id, _)| **id != last);
        let cut = others.max_by_key(|(id, (.., peer))| (count_from(peer.ip()), Reverse(**id)));
        cut.map(|(id, _)| *id)
    }
}

impl Place {
    /// Its number, for [`Places::keep`].
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The guest says that it is a member. If too many say that they are this one, one of them goes that is not known
    /// to be in use.
    pub fn claim(&self, member: ServerId, limits: ServerLimits) {
        let mut taken = self.places.taken.lock();
        taken.set(self.id, Guest::Claimant(member));
        if taken.count(|guest| guest == Guest::Claimant(member)) <= limits.per_member_max {
            return;
        }
        let cut_id = taken.claimant_to_cut(member, self.id);
        if let Some((guest, stream, peer)) = cut_id.and_then(|id| taken.guests.get_mut(&id)) {
            *guest = Guest::Stranger;
            if let Some(stream) = stream.upgrade() {
                cut(&stream);
            }
            self.places.warnings.warn(format_args!(
                "more than {} connections say that they are server {member}: closed one from {peer}",
                limits.per_member_max
            ));
        }
    }

    /// The guest is a server that is not listed. False if there are too many of those.
    #[must_use]
    pub fn claim_unlisted(&self, limits: ServerLimits) -> bool {
        let mut taken = self.places.taken.lock();
        let is_free = taken.count(|guest| guest == Guest::Unlisted) < limits.unlisted_max;
        if is_free {
            taken.set(self.id, Guest::Unlisted);
        }
        is_free
    }

    /// The guest is somebody: it stays when there are too many.
    pub fn keep(&self) {
        self.places.keep(self.id);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken.lock().guests.remove(&self.id);
        self.places.freed.notify_all();
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
    fn the_oldest_stranger_goes_and_known_guests_stay() {
        let places = Arc::new(Places::default());
        let (mut known_end, known, peer) = pair();
        let known_place = places.take(&known, peer, 2).unwrap();
        known_place.keep();
        let (mut stranger_end, stranger, peer) = pair();
        let stranger_place = places.take(&stranger, peer, 2).unwrap();
        let (_end, third, peer) = pair();
        std::thread::scope(|scope| {
            // As a connection's thread does: it sees the end and gives its place back.
            scope.spawn(move || {
                assert_eq!((&*stranger).read(&mut [0]).unwrap(), 0);
                drop(stranger_place);
            });
            // A slow machine may need more than one try.
            while places.take(&third, peer, 2).is_none() {}
        });
        assert_eq!(stranger_end.read(&mut [0]).unwrap(), 0);
        known_end.set_nonblocking(true).unwrap();
        assert!(known_end.read(&mut [0]).is_err());
    }

    const LIMITS: ServerLimits = ServerLimits { per_member_max: 2, unlisted_max: 2 };

    fn is_cut(end: &mut TcpStream) -> bool {
        end.set_nonblocking(true).unwrap();
        matches!(end.read(&mut [0]), Ok(0))
    }

    #[test]
    fn of_those_that_say_they_are_one_member_the_oldest_goes_that_is_not_in_use() {
        let places = Arc::new(Places::default());
        let mut guests: Vec<_> = (0..4).map(|_| pair()).collect();
        let taken: Vec<_> =
            guests.iter().map(|(_, stream, peer)| places.take(stream, *peer, 9).unwrap()).collect();
        taken[0].claim(ServerId(3), LIMITS);
        places.keep(taken[0].id());
        for place in &taken[1..] {
            place.claim(ServerId(3), LIMITS);
        }
        let cut: Vec<_> = guests.iter_mut().map(|(end, ..)| is_cut(end)).collect();
        assert_eq!(cut, [false, true, false, false]);
    }

    #[test]
    fn a_host_that_says_over_and_over_that_it_is_a_member_cuts_its_own_connections() {
        for members_turn in 0..4 {
            let places = Arc::new(Places::default());
            let mut guests: Vec<_> = (0..8).map(|_| pair()).collect();
            let mut taken = Vec::new();
            for (turn, (_, stream, peer)) in guests.iter().enumerate() {
                let mut peer = *peer;
                if turn == members_turn {
                    peer.set_ip([127, 0, 0, 2].into());
                }
                let place = places.take(stream, peer, 9).unwrap();
                place.claim(ServerId(3), LIMITS);
                taken.push(place);
            }
            let cut: Vec<_> = guests.iter_mut().map(|(end, ..)| is_cut(end)).collect();
            assert!(!cut[members_turn], "{cut:?}");
            assert_eq!(cut.iter().filter(|cut| !**cut).count(), LIMITS.per_member_max);
        }
    }

    #[test]
    fn servers_that_are_not_listed_have_their_own_limit() {
        let places = Arc::new(Places::default());
        let (_end, stream, peer) = pair();
        let taken: Vec<_> = (0..4).map(|_| places.take(&stream, peer, 9).unwrap()).collect();
        let claimed = taken[..3].iter().map(|place| place.claim_unlisted(LIMITS));
        assert_eq!(claimed.collect::<Vec<_>>(), [true, true, false]);
        places.keep(taken[0].id());
        assert!(!taken[2].claim_unlisted(LIMITS), "also those that are up to date count");
    }

    #[test]
    fn nobody_gets_in_when_all_are_known() {
        let places = Arc::new(Places::default());
        let (_end, stream, peer) = pair();
        let place = places.take(&stream, peer, 1).unwrap();
        place.keep();
        assert!(places.take(&stream, peer, 1).is_none());
        drop(place);
        assert!(places.take(&stream, peer, 1).is_some());
    }
}
