//! How many connections a port has at a time, and who has to go when there are too many.
//!
//! Anybody can connect and say nothing. When all places are taken, the connection that has been
//! here longest without being somebody is cut, so a flood of strangers does not keep members out. A
//! place is free when the connection's thread has ended, not when its socket is cut, so threads are
//! bounded too.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::threads::cut;
use crate::reports::Reports;

/// How long a newcomer waits for the one that was cut.
const LEAVE_WAIT: Duration = Duration::from_millis(100);

/// Who is behind a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guest {
    /// Nobody knows yet.
    Stranger,
    /// One that the others would miss.
    Known,
}

/// The places of one port.
#[derive(Debug, Default)]
pub(crate) struct Places {
    taken: Mutex<Taken>,
    freed: Condvar,
    warnings: Reports,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    /// In the order of their coming.
    guests: BTreeMap<u64, (Guest, Weak<TcpStream>, SocketAddr)>,
}

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
                .warn(format_args!("refused a connection from {peer}: all {places_max} are taken"));
            return None;
        }
        let id = taken.next;
        taken.next += 1;
        taken.guests.insert(id, (Guest::Stranger, Arc::downgrade(stream), peer));
        Some(Place { places: Arc::clone(self), id })
    }

    fn make_room(&self, taken: &mut parking_lot::MutexGuard<'_, Taken>, places_max: usize) -> bool {
        let oldest = taken.guests.values().find(|(guest, ..)| *guest == Guest::Stranger);
        let Some((_, stream, peer)) = oldest else { return false };
        if let Some(stream) = stream.upgrade() {
            cut(&stream);
        }
        self.warnings.warn(format_args!(
            "all {places_max} connections are taken: dropped {peer}, the oldest that is nobody"
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

impl Place {
    /// The guest is somebody: it stays when there are too many.
    pub fn keep(&self) {
        if let Some((guest, ..)) = self.places.taken.lock().guests.get_mut(&self.id) {
            *guest = Guest::Known;
        }
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
