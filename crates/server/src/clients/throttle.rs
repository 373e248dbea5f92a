//! The token bucket for new sessions, with random early drops. Apache: `BlueThrottle`.

use std::hash::{BuildHasher, RandomState};

use herdsman_node::sessions::SessionScope;
use herdsman_proto::SessionId;
use parking_lot::Mutex;

use herdsman_config::ConnectionThrottle;

#[derive(Debug)]
struct Bucket {
    tokens: u64,
    filled_ms: u64,
    drop_probability: f64,
    adjusted_ms: u64,
    draws: u64,
}

/// Admits new sessions at a bounded rate.
#[derive(Debug)]
pub struct SessionThrottle {
    settings: ConnectionThrottle,
    /// The cost of a new session when sessions have different weights.
    new_session_weight: u32,
    bucket: Mutex<Bucket>,
    random: RandomState,
}

impl SessionThrottle {
    /// Creates a full bucket; `new_sessions` is the kind of new sessions.
    #[must_use]
    pub fn new(settings: ConnectionThrottle, new_sessions: SessionScope) -> Self {
        let new_session_weight = match new_sessions {
            SessionScope::Global => settings.global_session_weight,
            SessionScope::Local => settings.local_session_weight,
        };
        let tokens = settings.tokens_max.map_or(0, |max| u64::from(max.get()));
        let bucket =
            Bucket { tokens, filled_ms: 0, drop_probability: 0.0, adjusted_ms: 0, draws: 0 };
        let (bucket, random) = (Mutex::new(bucket), RandomState::new());
        SessionThrottle { settings, new_session_weight, bucket, random }
    }

    /// Returns whether this session may be opened or resumed now.
    pub fn admits(&self, now_ms: u64, session: SessionId) -> bool {
        let Some(tokens_max) = self.settings.tokens_max else { return true };
        let tokens_max = u64::from(tokens_max.get());
        let mut bucket = self.bucket.lock();
        self.refill(&mut bucket, now_ms, tokens_max);
        if let Some(freeze_ms) = self.settings.freeze_ms
            && self.drops(&mut bucket, now_ms, u64::from(freeze_ms), tokens_max)
        {
            return false;
        }
        let cost = self.cost(session);
        if bucket.tokens < cost {
            return false;
        }
        bucket.tokens -= cost;
        true
    }

    /// The probability that a session is rejected although there may be tokens.
    #[must_use]
    pub fn drop_probability(&self) -> f64 {
        self.bucket.lock().drop_probability
    }

    /// Tokens missing in the bucket.
    #[must_use]
    pub fn deficit(&self) -> u64 {
        let tokens_max = self.settings.tokens_max.map_or(0, |max| u64::from(max.get()));
        tokens_max.saturating_sub(self.bucket.lock().tokens)
    }

    fn cost(&self, session: SessionId) -> u64 {
        match (self.settings.weights, session) {
            (false, _) => 1,
            (true, SessionId::NONE) => u64::from(self.new_session_weight),
            (true, _) => u64::from(self.settings.renew_session_weight),
        }
    }

    fn refill(&self, bucket: &mut Bucket, now_ms: u64, tokens_max: u64) {
        let passed_ms = now_ms.saturating_sub(bucket.filled_ms);
        let fill_ms = u64::from(self.settings.fill_ms).max(1);
        if passed_ms > fill_ms {
            let added = passed_ms.saturating_mul(u64::from(self.settings.fill_tokens)) / fill_ms;
            bucket.tokens = bucket.tokens.saturating_add(added).min(tokens_max);
            bucket.filled_ms = now_ms;
        }
    }

    fn drops(&self, bucket: &mut Bucket, now_ms: u64, freeze_ms: u64, tokens_max: u64) -> bool {
        if now_ms.saturating_sub(bucket.adjusted_ms) > freeze_ms {
            let used = tokens_max - bucket.tokens;
            let calm = (tokens_max as f64 * self.settings.decrease_ratio).round() as u64;
            let adjusted = if used == tokens_max {
                bucket.drop_probability + self.settings.drop_increase
            } else if used <= calm {
                bucket.drop_probability - self.settings.drop_decrease
            } else {
                bucket.drop_probability
            };
            bucket.drop_probability = adjusted.clamp(0.0, 1.0);
            bucket.adjusted_ms = now_ms;
        }
        bucket.draws += 1;
        let draw = self.random.hash_one(bucket.draws) as f64 / u64::MAX as f64;
        draw < bucket.drop_probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU32;

    fn settings() -> ConnectionThrottle {
        ConnectionThrottle {
            tokens_max: NonZeroU32::new(2),
            fill_ms: 10,
            fill_tokens: 1,
            ..ConnectionThrottle::default()
        }
    }

    #[test]
    fn tokens_run_out_and_come_back() {
        let throttle = SessionThrottle::new(settings(), SessionScope::Global);
        let admits = |now_ms| throttle.admits(now_ms, SessionId::NONE);
        assert_eq!([admits(0), admits(0), admits(0)], [true, true, false]);
        assert!(admits(20));
    }

    #[test]
    fn kinds_of_sessions_have_their_own_weights() {
        let cost = |new_sessions, session| {
            let settings = ConnectionThrottle {
                weights: true,
                global_session_weight: 3,
                renew_session_weight: 2,
                local_session_weight: 1,
                ..settings()
            };
            SessionThrottle::new(settings, new_sessions).cost(session)
        };
        assert_eq!(cost(SessionScope::Global, SessionId::NONE), 3);
        assert_eq!(cost(SessionScope::Local, SessionId::NONE), 1);
        assert_eq!(cost(SessionScope::Local, SessionId(7)), 2);
    }

    #[test]
    fn without_tokens_max_everybody_gets_in() {
        let throttle = SessionThrottle::new(ConnectionThrottle::default(), SessionScope::Global);
        assert!((0..100).all(|_| throttle.admits(0, SessionId::NONE)));
    }

    #[test]
    fn an_empty_bucket_raises_the_drop_probability() {
        let freeze_ms = Some(0);
        let settings =
            ConnectionThrottle { freeze_ms, drop_increase: 1.0, fill_tokens: 0, ..settings() };
        let throttle = SessionThrottle::new(settings, SessionScope::Global);
        for now_ms in 1..4 {
            throttle.admits(now_ms, SessionId::NONE);
        }
        assert!((throttle.drop_probability() - 1.0).abs() < 1e-9);
        assert!(!throttle.admits(10, SessionId::NONE));
    }
}
