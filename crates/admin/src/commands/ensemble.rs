//! Commands about the ensemble. A standalone server gives the same responses as Apache's.

use herdsman_proto::ServerId;
use herdsman_proto::membership::{Member, PeerAddress, Role};
use herdsman_server::ensemble::LinkReport;
use herdsman_server::operators::words::report::MemberReport;

use super::Answer;
use super::json::Json;
use super::reports::CommandRequest;

pub(super) fn leader(request: &CommandRequest<'_>, answer: Answer) -> Answer {
    let Some(MemberReport { me, leader, membership, .. }) = request.reports().member() else {
        return answer.refuse("server is not initialized");
    };
    let member = leader.and_then(|leader| membership.members.get(&leader));
    let host =
        member.and_then(|member| member.addresses.first()).map(|address| address.host.clone());
    answer
        .put("is_leader", leader == Some(me))
        // Apache's number for no leader.
        .put("leader_id", leader.map_or(-1, |leader| leader.0))
        .put("leader_ip", host.unwrap_or_default())
}

pub(super) fn observers(request: &CommandRequest<'_>, answer: Answer) -> Answer {
    let observers = request.reports().observers();
    let listed = observers.iter().map(|(id, link)| observer(*id, link)).collect::<Vec<_>>();
    answer.put("synced_observers", observers.len()).put("observers", listed)
}

fn observer(id: ServerId, link: &LinkReport) -> Json {
    Json::object([
        ("remote_socket_address", format!("/{}", link.peer).into()),
        ("sid", id.0.into()),
        ("established", link.established_ms.into()),
        ("queued_packets", link.queued_packets.into()),
        ("queued_packets_size", link.queued_bytes.into()),
        ("packets_received", link.packets_received.into()),
        ("packets_sent", link.packets_sent.into()),
        ("requests", link.requests.into()),
        ("last_zxid", link.last_zxid.0.into()),
    ])
}

pub(super) fn reset_observers(request: &CommandRequest<'_>, answer: Answer) -> Answer {
    request.reports().reset_links();
    answer
}

pub(super) fn voting_view(request: &CommandRequest<'_>, answer: Answer) -> Answer {
    let Some(report) = request.reports().member() else {
        return answer.put("current_config", Json::Object(Vec::new()));
    };
    let voters = report.membership.participants();
    let voters = voters.map(|(id, member)| (id.to_string(), voter(&report, id, member)));
    answer.put("current_config", Json::Object(voters.collect()))
}

fn voter(report: &MemberReport, id: ServerId, member: &Member) -> Json {
    // A server knows its own client port, even if its line does not have it.
    let named = member.client.as_ref().map(ToString::to_string);
    let own = (id == report.me).then(|| report.client_address.clone());
    Json::object([
        ("server_addresses", addresses(member, |address| address.quorum_port)),
        ("election_addresses", addresses(member, |address| address.election_port)),
        ("client_address", named.or(own).unwrap_or_default().into()),
        ("learner_type", member.role.to_string().into()),
    ])
}

fn addresses(member: &Member, port: fn(&PeerAddress) -> u16) -> Json {
    Json::List(
        member.addresses.iter().map(|address| at(&address.host, port(address)).into()).collect(),
    )
}

fn at(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

pub(super) fn zabstate(request: &CommandRequest<'_>, answer: Answer) -> Answer {
    let Some(report) = request.reports().member() else {
        return answer.put("voting", false).put("zabstate", "");
    };
    let zxid = request.reports().numbers().zxid;
    let me = report.membership.members.get(&report.me);
    let votes = me.is_some_and(|me| me.role == Role::Participant);
    let address =
        |port: fn(&PeerAddress) -> u16| me.map_or(Json::Null, |me| multiple_address(me, port));
    answer
        .put("myid", report.me.0)
        .put("is_leader", report.leader == Some(report.me))
        .put("quorum_address", address(|address| address.quorum_port))
        .put("election_address", address(|address| address.election_port))
        .put("client_address", report.client_address.clone())
        .put("voting", votes)
        .put("last_zxid", zxid.to_string())
        .put("zab_epoch", zxid.epoch())
        .put("zab_counter", zxid.counter())
        .put("zabstate", report.phase)
}

/// Apache's `MultipleAddresses` with its computed fields. Unlike Apache, does not check what is reachable.
fn multiple_address(member: &Member, port: fn(&PeerAddress) -> u16) -> Json {
    let all: Vec<String> =
        member.addresses.iter().map(|address| at(&address.host, port(address))).collect();
    let list = |texts: Vec<String>| Json::List(texts.into_iter().map(Json::from).collect());
    let ports: std::collections::BTreeSet<u16> = member.addresses.iter().map(port).collect();
    let wildcards = ports.iter().map(|port| format!("0.0.0.0:{port}")).collect();
    let one = all.first().cloned().unwrap_or_default();
    Json::object([
        ("empty", all.is_empty().into()),
        ("all_addresses", list(all.clone())),
        ("wildcard_addresses", list(wildcards)),
        ("all_ports", Json::List(ports.iter().map(|&port| Json::Whole(port.into())).collect())),
        (
            "all_host_strings",
            list(member.addresses.iter().map(|address| address.host.clone()).collect()),
        ),
        ("reachable_address", one.as_str().into()),
        ("all_reachable_addresses", list(all.clone())),
        ("all_reachable_addresses_or_all", list(all)),
        ("reachable_or_one", one.as_str().into()),
        ("one", one.into()),
    ])
}
