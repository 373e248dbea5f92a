//! Keeps a client's list of servers equal to the membership of the ensemble.
//!
//! In: the text of `/zookeeper/config`, which changes with each reconfiguration. Out: lists of servers for the
//! session's task, which moves the connection if necessary (`hosts.rs`). A member whose line names no client port is
//! left out; if no member names one, the list stays as it is.
//!
//! A membership may name addresses that this client cannot reach. So when no server has responded for a session
//! timeout, the initial servers of the program are tried again.
//!
//! Apache has no such option; its programs call `getConfig`, `ConfigUtils.getClientConfigStr` and `updateServerList`.

use std::sync::{Arc, Weak};
use std::time::Duration;

use herdsman_proto::{Membership, path};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::client::Client;
use crate::connect_string::{ConnectString, HostPort};
use crate::managed::Managed;
use crate::retry::RetryPolicy;
use crate::session::ClientShared;
use crate::state::ConnectionState;
use crate::watch::Watch;

/// The pause between two attempts to read the membership.
const PAUSE: Duration = Duration::from_millis(500);

/// Which of a member's client ports to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientPort {
    Plain,
    Tls,
}

/// Follows the membership until the client is closed or dropped.
pub(crate) async fn follow(managed: Weak<Managed>, initial: ConnectString, port: ClientPort) {
    let Some(mut states) =
        managed.upgrade().map(|managed| managed.client_shared.states.subscribe())
    else {
        return;
    };
    while connected(&mut states).await {
        let Some(client) = managed.upgrade().map(whole_tree) else {
            return;
        };
        let read = client.get(path::CONFIG).watch().await;
        let client_shared = client.client_shared();
        // A client handle would keep the session alive after the program has dropped its own.
        drop(client);
        match read {
            Ok((node, changed)) => {
                if let Some(servers) = servers_of(&node.data, port, initial.chroot()) {
                    replace(&client_shared, servers);
                }
                drop(client_shared);
                if let WaitResult::Lost = changed_or_lost(changed, &mut states).await
                    && let Some(managed) = managed.upgrade()
                {
                    replace(&managed.client_shared, initial.clone());
                }
            }
            Err(error) => {
                tracing::debug!(%error, "cannot read the membership");
                drop(client_shared);
                sleep(PAUSE).await;
            }
        }
    }
}

/// What happened first.
enum WaitResult {
    Changed,
    Lost,
}

async fn changed_or_lost(
    changed: Watch,
    states: &mut watch::Receiver<ConnectionState>,
) -> WaitResult {
    let lost = states.wait_for(|state| *state == ConnectionState::Lost || state.is_final());
    tokio::select! {
        // Also if the watch has ended: then the membership is read again.
        _ = changed => WaitResult::Changed,
        _ = lost => WaitResult::Lost,
    }
}

/// Waits for a connection; returns `false` if there will be none.
async fn connected(states: &mut watch::Receiver<ConnectionState>) -> bool {
    let is_over = |state: ConnectionState| state.is_final() && state != ConnectionState::Expired;
    let state = states.wait_for(|state| state.is_connected() || is_over(*state)).await;
    state.is_ok_and(|state| state.is_connected())
}

/// Returns a client without a chroot and without retries.
fn whole_tree(managed: Arc<Managed>) -> Client {
    Client::of_managed(managed).with_retry(RetryPolicy::never())
}

fn replace(client_shared: &ClientShared, servers: ConnectString) {
    client_shared.servers.send_if_modified(|current| {
        let is_new = *current != servers;
        if is_new {
            tracing::info!(%servers, "the list of servers has changed");
            *current = servers;
        }
        is_new
    });
}

/// Returns the client addresses of the members; `None` if no member names one.
fn servers_of(text: &[u8], port: ClientPort, chroot: &str) -> Option<ConnectString> {
    let text = std::str::from_utf8(text).ok()?;
    let membership = Membership::parse_text(text)
        .inspect_err(|reason| tracing::warn!("{} {reason}; ignoring it", path::CONFIG))
        .ok()?;
    let mut servers = Vec::new();
    for member in membership.members.values() {
        let endpoint = match port {
            ClientPort::Plain => member.client.as_ref(),
            ClientPort::Tls => member.secure_client.as_ref(),
        };
        let Some(endpoint) = endpoint else { continue };
        let hosts: Vec<&str> = match &endpoint.host {
            Some(host) if !endpoint.is_wildcard() => vec![host],
            _ => member.addresses.iter().map(|address| address.host.as_str()).collect(),
        };
        let listed = hosts.into_iter().filter_map(|host| HostPort::new(host, endpoint.port).ok());
        servers.extend(listed);
    }
    ConnectString::new(servers, chroot).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &str, port: ClientPort, expected: Option<&str>) {
        let servers = servers_of(lines.as_bytes(), port, "/app");
        assert_eq!(servers.map(|servers| servers.to_string()).as_deref(), expected, "{lines}");
    }

    #[test]
    fn members_are_reached_at_their_client_ports() {
        let plain = ClientPort::Plain;
        let full = "server.1=a:2888:3888:participant;10.0.0.1:2181\n\
                    server.2=b:2888:3888:observer;0.0.0.0:2182\nversion=100000000";
        check(full, plain, Some("10.0.0.1:2181,b:2182/app"));
        check(full, ClientPort::Tls, None);
        let partly = "server.1=a:2888:3888\nserver.2=b:2888:3888;2181\nversion=0";
        check(partly, plain, Some("b:2181/app"));
        check("server.1=a:2888:3888\nversion=0", plain, None);
        let networks = "server.1=a:2888:3888|[2001:db8::1]:2888:3888;2181";
        check(networks, plain, Some("[2001:db8:0:0:0:0:0:1]:2181,a:2181/app"));
        let secure = "server.1=a:2888:3888;2181;a.example:2281";
        check(secure, ClientPort::Tls, Some("a.example:2281/app"));
    }

    #[test]
    fn invalid_memberships_are_ignored() {
        for text in ["", "version=0", "server.1=nonsense", "server.1=a:1:2;0"] {
            check(text, ClientPort::Plain, None);
        }
        assert_eq!(servers_of(&[0xff], ClientPort::Plain, ""), None);
    }
}
