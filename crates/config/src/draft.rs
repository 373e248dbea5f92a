//! The configuration while it is being read: final fields, and raw ones that
//! `rules` turns into final fields when everything is known.

use super::field::{Field, FromWord};
use super::types::{AdminWriters, ClientAuth, DigestAlgorithm, SessionPasswordUse};
use super::{Config, Role};

/// A configuration that is not complete yet.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) config: Config,
    pub(super) raw: Raw,
}

/// Values as they were written, `None` if they were not.
#[derive(Debug, Default)]
pub(super) struct Raw {
    pub(super) data_dir: Option<String>,
    pub(super) data_log_dir: Option<String>,
    pub(super) client_port: Option<u16>,
    pub(super) client_port_address: Option<Host>,
    pub(super) secure_client_port: Option<u16>,
    pub(super) secure_client_port_address: Option<Host>,
    pub(super) backlog: i64,
    pub(super) connections_per_address_max: i64,
    pub(super) tick_ms: i64,
    pub(super) timeout_min_ms: i64,
    pub(super) timeout_max_ms: i64,
    pub(super) preallocate_kib: u64,
    pub(super) snapshot_txns: i64,
    pub(super) snapshot_log_kib: u64,
    pub(super) log_file_kib: u64,
    pub(super) compression: String,
    pub(super) accept_loss_after: String,
    pub(super) sasl_required: bool,
    pub(super) auth_enforced: bool,
    pub(super) enforced_schemes: Vec<String>,
    pub(super) purge_interval: Interval,
    pub(super) snapshots_kept: i64,
    pub(super) scrub_bytes_per_second: u64,
    pub(super) scrub_every_hours: i64,
    pub(super) frame_extra_bytes: Option<i64>,
    pub(super) large_requests_bytes: i64,
    pub(super) large_request_bytes: i64,
    pub(super) global_session_weight: i64,
    pub(super) renew_session_weight: i64,
    pub(super) local_session_weight: i64,
    pub(super) four_letter_words: String,
    pub(super) read_only_mode: bool,
    pub(super) init_limit_ticks: i64,
    pub(super) sync_limit_ticks: i64,
    pub(super) observer_master_port: i64,
    pub(super) election_alg: i64,
    pub(super) peer_type: Role,
    pub(super) dynamic_config_file: Option<String>,
    pub(super) commit_log_txns: i64,
    pub(super) snapshot_size_factor: f64,
    pub(super) observer_sync_override: Option<bool>,
    pub(super) admin_port: i64,
}

/// An address to listen on. For Java an empty one is the loopback address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Host(pub(super) String);

impl Field<&str> for Option<Host> {
    fn take(value: &str) -> Self {
        let host = if value.is_empty() { "127.0.0.1" } else { value };
        Some(Host(host.trim_matches(['[', ']']).to_owned()))
    }
}

/// A length of time that can be written with a unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) ms: u64,
}

impl FromWord for Interval {
    /// A number of hours, or with one of the units of Apache 3.10.
    fn from_word(word: &str) -> Result<Self, &'static str> {
        const HOUR_MS: u64 = 3_600_000;
        const EXPECTED: &str = "a number of hours, or a number with ms, s, m, h or d after it";
        let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit_ms = match &word[digits.len()..] {
            "" | "h" => HOUR_MS,
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "d" => 24 * HOUR_MS,
            _ => return Err(EXPECTED),
        };
        let number: i32 = digits.parse().map_err(|_| EXPECTED)?;
        Ok(Self { ms: u64::try_from(number).unwrap_or(0) * unit_ms })
    }
}

impl FromWord for DigestAlgorithm {
    /// Java's names of message digests, with or without the hyphen.
    fn from_word(word: &str) -> Result<Self, &'static str> {
        match word.to_ascii_uppercase().replace('-', "").as_str() {
            "SHA1" | "SHA" => Ok(Self::Sha1),
            "SHA256" => Ok(Self::Sha256),
            "SHA384" => Ok(Self::Sha384),
            "SHA512" => Ok(Self::Sha512),
            _ => Err("SHA1, SHA-256, SHA-384 or SHA-512"),
        }
    }
}

impl FromWord for ClientAuth {
    fn from_word(word: &str) -> Result<Self, &'static str> {
        match word.to_ascii_lowercase().as_str() {
            "none" => Ok(Self::None),
            "want" => Ok(Self::Want),
            "need" | "" => Ok(Self::Need),
            _ => Err("none, want or need"),
        }
    }
}

impl FromWord for AdminWriters {
    fn from_word(word: &str) -> Result<Self, &'static str> {
        match word {
            "logged-in" => Ok(Self::LoggedIn),
            "anybody" => Ok(Self::Anybody),
            "nobody" => Ok(Self::Nobody),
            _ => Err("`logged-in`, `anybody` or `nobody`"),
        }
    }
}

impl FromWord for Option<SessionPasswordUse> {
    fn from_word(word: &str) -> Result<Self, &'static str> {
        match word {
            "accept-keyed" => Ok(Some(SessionPasswordUse::AcceptKeyed)),
            "issue-keyed" => Ok(Some(SessionPasswordUse::IssueKeyed)),
            "keyed-only" => Ok(Some(SessionPasswordUse::KeyedOnly)),
            _ => Err("accept-keyed, issue-keyed or keyed-only"),
        }
    }
}

impl FromWord for Role {
    fn from_word(word: &str) -> Result<Self, &'static str> {
        Role::parse(word).ok_or("participant or observer")
    }
}
