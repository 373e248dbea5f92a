//! The delay between connection attempts.
//!
//! In: how long each connection lasted, and the next server. Out: the pause before the next attempt. Time is an
//! argument. A server that closes connections at once, even after a handshake, must not be tried in a tight
//! loop; after a connection that has lasted for a while there is no reason to wait.

use std::time::Duration;

use fastrand::Rng;

use crate::backoff::{self, Backoff};
use crate::connect_string::HostPort;
use crate::hosts::NextHost;

/// After a connection that has lasted this long, the next attempt is made without a pause.
const PROVEN_AFTER: Duration = Duration::from_secs(1);

/// Decides the delay between connection attempts.
pub(super) struct ReconnectDelay {
    backoff: Backoff,
    /// The last connection was lost so soon that the next attempt waits, even at another server.
    broke_at_once: bool,
}

impl ReconnectDelay {
    pub(super) fn new(rng: Rng) -> Self {
        ReconnectDelay {
            backoff: Backoff::new(backoff::BASE, backoff::CAP, rng),
            broke_at_once: false,
        }
    }

    /// Records how long a connection has lasted.
    pub(super) fn connection_lasted(&mut self, time: Duration) {
        self.broke_at_once = time < PROVEN_AFTER;
        if !self.broke_at_once {
            self.backoff.reset();
        }
    }

    /// Returns the next server and how long to wait before it is tried.
    pub(super) fn pause_before(&mut self, next: NextHost) -> (HostPort, Duration) {
        match next {
            NextHost::Now(host) if !std::mem::take(&mut self.broke_at_once) => {
                (host, Duration::ZERO)
            }
            NextHost::Now(host) | NextHost::AfterPause(host) => (host, self.backoff.next()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> NextHost {
        NextHost::Now("zk1:2181".parse().expect("a host"))
    }

    fn pauses(reconnect_delay: &mut ReconnectDelay, lasted: Duration) -> Vec<Duration> {
        let mut pause = || {
            reconnect_delay.connection_lasted(lasted);
            reconnect_delay.pause_before(now()).1
        };
        (0..10).map(|_| pause()).collect()
    }

    #[test]
    fn connections_that_break_at_once_are_followed_by_ever_longer_pauses() {
        let mut reconnect_delay = ReconnectDelay::new(Rng::with_seed(1));
        let short = pauses(&mut reconnect_delay, Duration::from_millis(3));
        assert!(short.iter().all(|pause| !pause.is_zero()), "{short:?}");
        assert!(short.iter().sum::<Duration>() > Duration::from_secs(1), "{short:?}");
    }

    #[test]
    fn after_a_connection_that_has_served_there_is_no_pause() {
        let mut reconnect_delay = ReconnectDelay::new(Rng::with_seed(1));
        pauses(&mut reconnect_delay, Duration::ZERO);
        assert_eq!(pauses(&mut reconnect_delay, PROVEN_AFTER), [Duration::ZERO; 10]);
    }

    #[test]
    fn an_unsuccessful_round_is_followed_by_a_pause() {
        let mut reconnect_delay = ReconnectDelay::new(Rng::with_seed(1));
        let NextHost::Now(host) = now() else { unreachable!("made above") };
        assert!(!reconnect_delay.pause_before(NextHost::AfterPause(host)).1.is_zero());
    }
}
