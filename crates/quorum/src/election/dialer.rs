//! Connects to one peer when a message is pending or the peer has asked for a connection.
//!
//! Each peer has its own thread for this, so an unreachable peer does not delay the others.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use herdsman_proto::membership::Endpoint;
use herdsman_proto::notification::Hello;

use super::peer::Peer;
use super::{Election, ROOM_BYTES, connection};
use crate::address::{dial_any, election_endpoints, hello_text};
use crate::context::NoDelay;
use crate::incoming::Incoming;
use crate::receiver::Receiver;
use crate::stream::PeerStream;

/// Starts the thread.
pub(super) fn start(
    election: &Arc<Election>,
    peer: &Arc<Peer>,
    receiver: Arc<dyn Receiver>,
) -> io::Result<()> {
    let (election, peer) = (Arc::clone(election), Arc::clone(peer));
    let context = Arc::clone(&election.context);
    context.threads.spawn(format!("dial-{}", peer.id), move || {
        while let Some(endpoints) = peer.next_call(&election.context.threads) {
            if let Err(error) = call(&election, &peer, &endpoints, &receiver) {
                peer.warnings.warn(format_args!(
                    "cannot open an election connection to server {}: {error}",
                    peer.id
                ));
                peer.call_failed(Instant::now());
            }
        }
    })
}

fn call(
    election: &Arc<Election>,
    peer: &Arc<Peer>,
    endpoints: &[Endpoint],
    receiver: &Arc<dyn Receiver>,
) -> io::Result<()> {
    let settings = &election.context.settings;
    // Limited, because a newer vote or address may arrive meanwhile.
    let limit = settings.connect_timeout * 2;
    let by = Instant::now() + limit;
    let dialled = dial_any(&election.context.threads, settings, endpoints, limit)?;
    let host = dialled.host.clone();
    let stream = Arc::new(settings.protection.dialled(dialled, by)?);
    let membership = election.context.membership();
    settings.protection.check_dialled(&stream, &host, peer.id, &membership)?;
    // A peer with the larger id may have connected meanwhile, and asking it again would break that connection.
    if settings.my_id < peer.id && peer.is_connected() {
        return Ok(());
    }
    election.context.set_options(stream.socket(), NoDelay::On);
    stream.socket().set_write_timeout(Some(settings.connect_timeout))?;
    say_hello(election, &stream)?;
    let mut incoming = Incoming::new(Arc::clone(&stream), ROOM_BYTES);
    settings.protection.log_in(&mut incoming, &host, by)?;
    peer.warnings.reset();
    if settings.my_id < peer.id {
        stream.end_writing();
        peer.asked_to_call(Instant::now());
        return Ok(());
    }
    connection::serve_dialled(election, peer, incoming, Arc::clone(receiver))
}

fn say_hello(election: &Election, stream: &PeerStream) -> io::Result<()> {
    let settings = &election.context.settings;
    let membership = election.context.membership();
    let own = membership.members.get(&settings.my_id).map(election_endpoints).unwrap_or_default();
    let told = if settings.tell_all_addresses { &own[..] } else { &own[..own.len().min(1)] };
    let addresses = match hello_text(told) {
        // Removed from the membership. The field must not be empty, and this address is ignored by receivers.
        none if none.is_empty() => "0.0.0.0:0".to_owned(),
        text => text,
    };
    let mut hello = Vec::new();
    Hello { server: settings.my_id, addresses }.encode(&mut hello);
    stream.write_all(&hello)
}
