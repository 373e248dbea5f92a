//! Whether the server is standalone or in an ensemble, and the ensemble's members. Apache:
//! `QuorumPeerConfig.setupQuorumPeerConfig` and `parseDynamicConfig`.
//!
//! Names are compared as text, because nothing is resolved here: where Apache would compare addresses
//! behind two different names, we only compare ports.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::error::{ConfigError, Location};
use super::load::{self, Files, Loading};
use super::quorum::Mode;
use super::rules;
use super::{Endpoint, Member, Membership, Role, ServerId};

/// The value that Apache treats as not set.
const NO_ID: ServerId = ServerId(-1);
/// What Apache's sample has, in place of a number below zero.
const INIT_LIMIT_TICKS: u32 = 10;
const SYNC_LIMIT_TICKS: u32 = 5;
/// The largest server id that leaves enough bits for TTL znodes.
const SERVER_ID_MAX_WITH_TTL: i64 = 254;

/// Completes membership, mode and client ports. `membership` is the one in zoo.cfg itself.
pub(super) fn decide(
    loading: &mut Loading,
    membership: Membership,
    path: &Path,
    files: Files<'_>,
) -> Result<(), ConfigError> {
    let mut membership = membership;
    let mut source = path.to_owned();
    if let Some(dynamic) = loading.draft.raw.dynamic_config_file.take() {
        source = PathBuf::from(dynamic);
        membership = read_dynamic(loading, &source, files)?;
    }
    let problem = |text: String| ConfigError::rule(Location::File(source.clone()), text);
    if loading.is_set("oraclePath") {
        // The oracle decides between two servers; Apache does not look at groups then.
        membership.groups.clear();
        membership.weights.clear();
    }
    membership.complete_groups().map_err(problem)?;
    check_addresses(loading, &membership).map_err(problem)?;
    let ensemble = is_ensemble(loading, &membership, &source).map_err(problem)?;
    let my_id = read_my_id(loading, files)?;
    let me = my_id.filter(|id| *id != NO_ID).and_then(|id| membership.members.get(&id));
    if let Some(me) = me {
        merge_client_port(loading, me).map_err(problem)?;
    }
    let role = me.map_or(Role::Participant, |me| me.role);
    // Apache warns even if only the list sets the role.
    if loading.is_set("peerType") && role != loading.draft.raw.peer_type {
        let text =
            format!("peerType differs from the list of servers, by which this server is {role}");
        loading.warn(loading.place("peerType"), text);
    }
    loading.draft.config.quorum.membership = membership;
    let listen = &loading.draft.config.listen;
    if ensemble {
        rules::access::quorum_tls(loading)?;
        check_limits(loading)?;
        let my_id = check_my_id(loading, my_id)?;
        loading.draft.config.mode = Mode::Ensemble { my_id, role };
    } else if listen.client.is_none() && listen.secure_client.is_none() {
        loading
            .warn(loading.place("clientPort"), "clientPort is not set, so no client can connect");
    }
    Ok(())
}

/// The members in the file that `dynamicConfigFile` names; its version is in its name.
fn read_dynamic(
    loading: &mut Loading,
    path: &Path,
    files: Files<'_>,
) -> Result<Membership, ConfigError> {
    let mut membership = read_members(loading, path, files)?;
    if membership.version != 0 {
        let problem = "a dynamic file has its version in its name, not in a line";
        return Err(ConfigError::rule(Location::File(path.to_owned()), problem));
    }
    membership.version = version_of_name(&path.to_string_lossy());
    Ok(membership)
}

/// Reads a file that has only `server.`, `group.` and `weight.` lines, and possibly a version.
fn read_members(
    loading: &mut Loading,
    path: &Path,
    files: Files<'_>,
) -> Result<Membership, ConfigError> {
    let mut membership = Membership::default();
    for (key, entry) in load::parse(path, &load::read(path, files)?)?.in_file_order() {
        loading.warn_of_blanks(key, entry, &Location::line(path, entry.line));
        let outcome = match membership.take_line(key, &entry.value) {
            Some(outcome) => outcome,
            None if key == "version" => u64::from_str_radix(&entry.value, 16)
                .map(|version| membership.version = version)
                .map_err(|_| "is not a hexadecimal number".to_owned()),
            None => Err("is not about a server, a group or a weight".to_owned()),
        };
        outcome.map_err(|problem| {
            let problem = format!("{key}={} {problem}", entry.value);
            ConfigError::rule(Location::line(path, entry.line), problem)
        })?;
    }
    Ok(membership)
}

/// The hexadecimal number after the last dot, 0 if there is none.
fn version_of_name(name: &str) -> u64 {
    let suffix = name.rsplit_once('.').map_or("", |(_, suffix)| suffix);
    i64::from_str_radix(suffix, 16)
        .ok()
        .and_then(|version| u64::try_from(version).ok())
        .unwrap_or(0)
}

fn check_addresses(loading: &Loading, membership: &Membership) -> Result<(), String> {
    let mut several = membership.members.iter().filter(|(_, member)| member.addresses.len() > 1);
    match several.next() {
        Some((id, _)) if !loading.draft.config.quorum.multi_address => {
            Err(format!("server.{id} has several addresses; that needs multiAddress.enabled=true"))
        }
        _ => Ok(()),
    }
}

/// Whether the members form an ensemble; errors and warnings about their number are Apache's.
fn is_ensemble(
    loading: &mut Loading,
    membership: &Membership,
    source: &Path,
) -> Result<bool, String> {
    let alone_allowed = loading.draft.config.quorum.standalone_enabled;
    let observers = membership.observers().count();
    let remark = match membership.participants().count() {
        0 if !alone_allowed => {
            return Err("standaloneEnabled=false needs at least one participant".to_owned());
        }
        0 if observers > 0 => return Err("there are observers but no participants".to_owned()),
        0 => return Ok(false),
        1 if alone_allowed && observers > 0 => {
            return Err("there are observers but only one participant; add more of them, or \
                        set standaloneEnabled=false"
                .to_owned());
        }
        1 if alone_allowed => "there is one server only; it runs standalone",
        1 | 2 => "no server may fail; three servers are needed for that",
        even if even % 2 == 0 => "an odd number of participants would tolerate as many failures",
        _ => return Ok(true),
    };
    loading.warn(Location::File(source.to_owned()), remark);
    Ok(!alone_allowed || membership.participants().count() > 1)
}

/// The number in `dataDir/myid`, if the file exists. Errors of `dataDir` itself are detected later.
fn read_my_id(loading: &mut Loading, files: Files<'_>) -> Result<Option<ServerId>, ConfigError> {
    let path = loading.draft.config.storage.data_dir.join("myid");
    let bytes = match (files.read)(&path) {
        Ok(bytes) => bytes,
        Err(error) if is_missing(error.kind()) => return Ok(None),
        Err(source) => return Err(ConfigError::Read { path, source }),
    };
    let text = String::from_utf8_lossy(&bytes);
    let padded = text.split(['\n', '\r']).next().unwrap_or_default();
    let line = padded.trim();
    match line.parse() {
        Ok(id) => {
            if line.len() < padded.len() {
                let text =
                    "has spaces around the number, which Apache's server refuses; remove them";
                loading.warn(Location::Line(path, 1), text);
            }
            Ok(Some(ServerId(id)))
        }
        Err(_) => {
            let problem = format!("{line:?} is not the number of a server, such as 1");
            Err(ConfigError::rule(Location::Line(path, 1), problem))
        }
    }
}

fn is_missing(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The client port may be in zoo.cfg and in this server's own line; then they must agree.
fn merge_client_port(loading: &mut Loading, me: &Member) -> Result<(), String> {
    let listen = &mut loading.draft.config.listen;
    if let (Some(fixed), Some(own)) = (&listen.client, &me.client)
        && (fixed.port != own.port || differ(fixed.host.as_deref(), own.host.as_deref()))
    {
        return Err(format!("clientPort says {fixed} but this server's own line says {own}"));
    }
    let all_addresses = |endpoint: &Endpoint| Endpoint {
        host: endpoint.host.clone().filter(|host| host != "0.0.0.0"),
        port: endpoint.port,
    };
    listen.client = me.client.as_ref().map(all_addresses).or(listen.client.take());
    listen.secure_client =
        me.secure_client.as_ref().map(all_addresses).or(listen.secure_client.take());
    Ok(())
}

/// Whether two hosts certainly differ. The first may be a wildcard, which matches any.
fn differ(fixed: Option<&str>, own: Option<&str>) -> bool {
    let address = |host: Option<&str>| host.and_then(|host| host.parse::<IpAddr>().ok());
    matches!((address(fixed), address(own)), (Some(one), Some(other)) if one != other)
}

/// An ensemble needs its limits. Apache accepts a negative one: it starts, and no follower ever joins.
fn check_limits(loading: &mut Loading) -> Result<(), ConfigError> {
    let raw = &loading.draft.raw;
    let written = [("initLimit", raw.init_limit_ticks), ("syncLimit", raw.sync_limit_ticks)];
    for (key, ticks) in written {
        if ticks == 0 {
            let is_set = if loading.is_set(key) { "=0 counts as not set" } else { " is not set" };
            return Err(loading.broken(key, format!("{key}{is_set}; an ensemble needs it")));
        }
        if ticks < 0 {
            let quorum = &mut loading.draft.config.quorum;
            let (field, used) = match key {
                "initLimit" => (&mut quorum.init_limit_ticks, INIT_LIMIT_TICKS),
                _ => (&mut quorum.sync_limit_ticks, SYNC_LIMIT_TICKS),
            };
            *field = used;
            let text = format!(
                "{key}={ticks} is negative; using {used} instead. Set it to a positive number of ticks"
            );
            loading.warn(loading.place(key), text);
        }
    }
    Ok(())
}

/// An ensemble needs to know which of its members this server is.
fn check_my_id(loading: &Loading, my_id: Option<ServerId>) -> Result<ServerId, ConfigError> {
    let config = &loading.draft.config;
    let path = config.storage.data_dir.join("myid");
    let members = &config.quorum.membership.members;
    let listed = || {
        let ids: Vec<_> = members.keys().map(ServerId::to_string).collect();
        ids.join(", ")
    };
    match my_id {
        None | Some(NO_ID) => {
            let found = if my_id.is_none() { "is missing" } else { "-1 is not a server number" };
            let problem = format!(
                "{found}; put this server's number (one of {}) into it, for example: echo 1 > {}",
                listed(),
                path.display()
            );
            Err(ConfigError::rule(Location::File(path), problem))
        }
        Some(id) if config.znodes.ttl && id.0 > SERVER_ID_MAX_WITH_TTL => {
            let problem = format!(
                "{id} is too large: extendedTypesEnabled leaves room for {SERVER_ID_MAX_WITH_TTL}"
            );
            Err(ConfigError::rule(Location::Line(path, 1), problem))
        }
        Some(id) if !members.contains_key(&id) => {
            let problem = format!(
                "{id} is not in the list of servers, which has {}; correct the number, or add a line \
                 server.{id} to the configuration of every server",
                listed()
            );
            Err(ConfigError::Unexpected { place: Location::Line(path, 1), problem })
        }
        Some(id) => Ok(id),
    }
}
