//! `GET /api/v1/ensemble`: all members, as each reports itself.
//!
//! This server knows its own numbers; the other members are queried by the four-letter word `srvr` on their
//! client ports, concurrently, within a second. That also works with Apache's servers, whose whitelist has
//! only this word by default. A member that cannot be queried is shown with its problem. The result is cached
//! for a second, so any number of open consoles causes no more queries than that.
//!
//! If a member's client port is not known (`server.N` without `;port`), it is assumed to be the same as
//! this server's, as it is in nearly all static configurations.

mod srvr;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use axum::extract::State;
use herdsman_proto::membership::{Endpoint, Member};
use herdsman_proto::{Membership, ServerId, Zxid};
use herdsman_server::ServerHandle;
use herdsman_server::ensemble::role_log::{NewRole, RoleChange};
use serde::Serialize;
use tokio::sync::Mutex;

use super::rendered::Rendered;
use super::server::{client_address, my_id, role_name};
use crate::error::ApiError;
use crate::state::AdminState;
use srvr::{Status, ask};

/// How long the result is cached.
const CACHE_TIME: Duration = Duration::from_secs(1);

/// The last result. The request that holds the lock queries the members.
#[derive(Debug, Default)]
pub struct EnsembleCache(Mutex<Option<(Instant, Rendered)>>);

/// An ensemble, or a standalone server.
#[derive(Debug, Serialize)]
pub struct EnsembleView {
    mode: &'static str,
    leader_id: Option<i64>,
    epoch: Option<u32>,
    members: Vec<MemberView>,
    elections: Vec<ElectionView>,
}

/// A member.
#[derive(Debug, Default, Serialize)]
pub struct MemberView {
    id: Option<i64>,
    address: Option<String>,
    client_address: Option<String>,
    configured_role: String,
    me: bool,
    reachable: bool,
    role: Option<String>,
    zxid: Option<String>,
    lag: Option<u64>,
    latency_avg_ms: Option<f64>,
    latency_max_ms: Option<u64>,
    connections: Option<u64>,
    outstanding: Option<u64>,
    znodes: Option<u64>,
    version: Option<String>,
    problem: Option<String>,
}

/// A change of this server's role.
#[derive(Debug, Serialize)]
pub struct ElectionView {
    at_ms: i64,
    event: &'static str,
    epoch: Option<u32>,
    leader_id: Option<i64>,
    took_ms: Option<u64>,
}

/// All members.
///
/// # Errors
/// Fails only on internal errors.
pub async fn ensemble(State(state): State<AdminState>) -> Result<Rendered, ApiError> {
    let mut asked = state.views.ensemble.0.lock().await;
    if let Some((_, view)) = asked.as_ref().filter(|(at, _)| at.elapsed() < CACHE_TIME) {
        return Ok(view.clone());
    }
    let view = Rendered::of(&query_members(&state.server).await)?;
    *asked = Some((Instant::now(), view.clone()));
    Ok(view)
}

async fn query_members(server: &ServerHandle) -> EnsembleView {
    let known = server.core().with_node(|node| {
        let zab = node.zab()?;
        Some((Arc::clone(zab.membership()), zab.leader(), zab.epochs().current))
    });
    let Some((membership, leader, epoch)) = known else {
        let me = MemberView {
            configured_role: "participant".to_owned(),
            client_address: client_address(server),
            ..own_numbers(server)
        };
        return EnsembleView {
            mode: "standalone",
            leader_id: None,
            epoch: None,
            members: vec![me],
            elections: Vec::new(),
        };
    };
    let mut members = ask_all(server, &membership).await;
    let leader = leader.map(|leader| leader.0);
    add_lags(&mut members, leader);
    let changes = server.core().peers().map(|peers| peers.role_history()).unwrap_or_default();
    EnsembleView {
        mode: "ensemble",
        leader_id: leader,
        epoch: Some(epoch),
        members,
        elections: changes.iter().map(election).collect(),
    }
}

async fn ask_all(server: &ServerHandle, membership: &Membership) -> Vec<MemberView> {
    let me = my_id(server).map(ServerId);
    let own_host = me.and_then(|me| membership.members.get(&me)).map(host);
    let own_port = server.config().listen.client.as_ref().map(|client| client.port);
    let views = membership.members.iter().map(|(&id, member)| {
        let own_host = own_host.clone();
        async move {
            let view = MemberView {
                id: Some(id.0),
                address: Some(address(member)),
                configured_role: member.role.to_string(),
                ..MemberView::default()
            };
            if Some(id) == me {
                let client_address = client_address(server);
                return own_numbers(server).with_names_of(MemberView { client_address, ..view });
            }
            match client_endpoint(member, own_port, own_host.as_deref()) {
                Ok(at) => {
                    let client_address = Some(at.to_string());
                    let view = MemberView { client_address, ..view };
                    answered(ask(&at).await).with_names_of(view)
                }
                Err(problem) => MemberView { problem: Some(problem), ..view },
            }
        }
    });
    futures_util::future::join_all(views).await
}

impl MemberView {
    /// The same numbers, with another view's identity of the member.
    fn with_names_of(self, names: MemberView) -> MemberView {
        let MemberView { id, address, client_address, configured_role, .. } = names;
        MemberView { id, address, client_address, configured_role, ..self }
    }
}

/// The view of another member from its reply, or the problem.
fn answered(answer: Result<Status, String>) -> MemberView {
    match answer {
        Ok(status) => MemberView {
            reachable: true,
            role: Some(status.role),
            zxid: status.zxid.map(|zxid| zxid.to_string()),
            latency_avg_ms: status.latency_avg_ms,
            latency_max_ms: status.latency_max_ms,
            connections: status.connections,
            outstanding: status.outstanding,
            znodes: status.znodes,
            version: status.version,
            problem: status.problem,
            ..MemberView::default()
        },
        Err(problem) => MemberView { problem: Some(problem), ..MemberView::default() },
    }
}

fn own_numbers(server: &ServerHandle) -> MemberView {
    let core = server.core();
    let latency = core.stats.latency.get();
    let (zxid, znodes) = {
        let tree = core.tree();
        (tree.last_zxid(), tree.node_count())
    };
    let role = server.serves_as();
    MemberView {
        me: true,
        reachable: true,
        role: Some(role_name(role).to_owned()),
        zxid: Some(zxid.to_string()),
        latency_avg_ms: Some(latency.mean()),
        latency_max_ms: Some(latency.max),
        connections: Some(core.clients.len() as u64),
        outstanding: Some(core.stats.outstanding.load(Ordering::Relaxed)),
        // As `srvr` counts them, so that members can be compared.
        znodes: Some(znodes as u64 + 1),
        version: Some(server.version()),
        problem: role.is_none().then(|| "there is no leader".to_owned()),
        ..MemberView::default()
    }
}

/// The quorum address of a member.
fn address(member: &Member) -> String {
    let one = |at: &herdsman_proto::membership::PeerAddress| {
        Endpoint { host: Some(at.host.clone()), port: at.quorum_port }.to_string()
    };
    let all: Vec<_> = member.addresses.iter().map(one).collect();
    all.join("|")
}

fn host(member: &Member) -> String {
    member.addresses.first().map(|at| at.host.clone()).unwrap_or_default()
}

/// The client address of a member, if it is known.
fn client_endpoint(
    member: &Member,
    own_port: Option<u16>,
    own_host: Option<&str>,
) -> Result<Endpoint, String> {
    let host = host(member);
    match &member.client {
        Some(client) if !client.is_wildcard() => Ok(client.clone()),
        Some(client) => Ok(Endpoint { host: Some(host), port: client.port }),
        None if member.secure_client.is_some() => {
            Err("it has only a TLS client port, which does not support four-letter words"
                .to_owned())
        }
        None => match own_port {
            // On the same machine the same port would be our own.
            Some(port) if own_host != Some(host.as_str()) => {
                Ok(Endpoint { host: Some(host), port })
            }
            _ => Err("its client port is not known: add it to its server line, after a \
                      semicolon (server.N=host:2888:3888;2181)"
                .to_owned()),
        },
    }
}

/// Computes how many txns each member is behind the leader. Only zxids of the same epoch can be compared.
fn add_lags(members: &mut [MemberView], leader: Option<i64>) {
    let parse = |member: &MemberView| member.zxid.as_deref().and_then(srvr::parse_zxid);
    let leads = |member: &&MemberView| leader.is_some() && member.id == leader;
    let Some(last) = members.iter().find(leads).and_then(parse) else { return };
    for member in members {
        member.lag = parse(member).and_then(|zxid| lag(last, zxid));
    }
}

/// A leader whose zxid is the start of its epoch has made no txn yet, and every server that follows it has all
/// earlier ones.
fn lag(leader: Zxid, member: Zxid) -> Option<u64> {
    if leader.counter() == 0 && member < leader {
        return Some(0);
    }
    let same_epoch = leader.epoch() == member.epoch();
    // The members are not queried at one moment, so one may be ahead of the leader's reply.
    same_epoch.then(|| u64::from(leader.counter().saturating_sub(member.counter())))
}

fn election(change: &RoleChange) -> ElectionView {
    ElectionView {
        at_ms: change.at_ms,
        event: match change.role {
            NewRole::Looking => "looking",
            NewRole::Leading => "leading",
            NewRole::Following => "following",
            NewRole::Observing => "observing",
        },
        epoch: change.epoch,
        leader_id: change.leader.map(|leader| leader.0),
        took_ms: change.took_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(line: &str) -> Member {
        Member::parse(line).unwrap()
    }

    #[test]
    fn a_member_is_queried_at_the_address_of_its_line() {
        let at =
            |line, port, host| client_endpoint(&member(line), port, host).map(|at| at.to_string());
        let check = |line, expected: &str| {
            assert_eq!(at(line, Some(2181), Some("other")).unwrap(), expected, "{line}");
        };
        check("a:2888:3888;2182", "a:2182");
        check("a:2888:3888;0.0.0.0:2182", "a:2182");
        check("a:2888:3888;10.0.0.9:2182", "10.0.0.9:2182");
        check("a:2888:3888:observer", "a:2181");
        check("[::1]:2888:3888", "[0:0:0:0:0:0:0:1]:2181");
    }

    #[test]
    fn an_unknown_port_is_not_guessed() {
        let problem = |port, host| client_endpoint(&member("a:1:2"), port, host).unwrap_err();
        assert!(problem(Some(2181), Some("a")).contains("semicolon"));
        assert!(problem(None, Some("other")).contains("semicolon"));
    }

    #[test]
    fn lags_are_computed_within_an_epoch() {
        assert_eq!(lag(Zxid(0x1_0000_0005), Zxid(0x1_0000_0002)), Some(3));
        assert_eq!(lag(Zxid(0x1_0000_0005), Zxid(0x1_0000_0006)), Some(0));
        assert_eq!(lag(Zxid(0x2_0000_0001), Zxid(0x1_0000_0006)), None);
        assert_eq!(lag(Zxid(0x2_0000_0000), Zxid(0x1_0000_0006)), Some(0));
    }
}
