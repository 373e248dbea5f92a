//! Computes the membership that results from a reconfig request. In: the membership in force, whether another
//! change is pending, the request. Out: the new membership or the error for the client.
//!
//! Permissions, and whether a quorum of the new servers is connected, are checked elsewhere. Apache: the `reconfig`
//! case of `PrepRequestProcessor.pRequest2Txn`, in the same order.

use herdsman_proto::request::ReconfigRequest;
use herdsman_proto::{ErrorCode, Member, Membership, ServerId, Zxid};

/// Plans a change that takes effect with txn `zxid`.
pub fn plan_reconfig(
    current: &Membership,
    proposed: Option<&Membership>,
    request: &ReconfigRequest<'_>,
    zxid: Zxid,
    voters_min: usize,
) -> Result<Membership, ErrorCode> {
    if proposed.is_some() {
        return Err(ErrorCode::ReconfigInProgress);
    }
    let wanted = request.current_config;
    if wanted != -1 && wanted as u64 != current.version {
        return Err(ErrorCode::BadVersion);
    }
    let mut next = match &request.new_members {
        Some(members) => replace(members)?,
        None => change(current, request)?,
    };
    next.version = zxid.0 as u64;
    if next.voters().count() < voters_min.max(1) {
        return Err(ErrorCode::BadArguments);
    }
    Ok(next)
}

/// Parses a complete new list, with commas or line ends between its lines.
fn replace(members: &str) -> Result<Membership, ErrorCode> {
    let text = members.replace(',', "\n");
    let mut next = Membership::parse_text(&text).map_err(|_| ErrorCode::BadArguments)?;
    next.complete_groups().map_err(|_| ErrorCode::BadArguments)?;
    let members: Vec<_> = next.members.iter().collect();
    for (index, (_, member)) in members.iter().enumerate() {
        if members[..index].iter().any(|(_, other)| shares_address(member, other)) {
            return Err(ErrorCode::BadArguments);
        }
    }
    Ok(next)
}

/// Removes servers that leave and adds servers that join. Only without groups: the request does not say to
/// which group a new server belongs.
fn change(current: &Membership, request: &ReconfigRequest<'_>) -> Result<Membership, ErrorCode> {
    if !current.groups.is_empty() {
        return Err(ErrorCode::BadArguments);
    }
    let mut next = current.clone();
    for leaving in parts(request.leaving.as_deref()) {
        let id = leaving.parse().map_err(|_| ErrorCode::BadArguments)?;
        next.members.remove(&ServerId(id));
    }
    for joining in parts(request.joining.as_deref()) {
        join(&mut next, joining)?;
    }
    Ok(next)
}

fn parts(list: Option<&str>) -> impl Iterator<Item = &str> {
    list.unwrap_or_default().split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// Adds a server from a line `server.N=…`, with a client address.
fn join(next: &mut Membership, line: &str) -> Result<(), ErrorCode> {
    let (key, value) = line.split_once('=').ok_or(ErrorCode::BadArguments)?;
    let id = key.trim().rsplit('.').next().unwrap_or_default();
    let id = ServerId(id.parse().map_err(|_| ErrorCode::BadArguments)?);
    let member = Member::parse(value.trim()).map_err(|_| ErrorCode::BadArguments)?;
    let others = next.members.iter().filter(|(other, _)| **other != id);
    if member.client.is_none()
        || others.into_iter().any(|(_, other)| shares_address(&member, other))
    {
        return Err(ErrorCode::BadArguments);
    }
    next.members.insert(id, member);
    Ok(())
}

/// Whether two servers would listen at the same address.
fn shares_address(one: &Member, other: &Member) -> bool {
    let places = |member: &Member| {
        let peers = member.addresses.iter();
        let peers = peers.flat_map(|at| {
            [(at.host.clone(), at.quorum_port), (at.host.clone(), at.election_port)]
        });
        let client = member.client.iter().filter(|client| !client.is_wildcard());
        let client = client.filter_map(|client| Some((client.host.clone()?, client.port)));
        peers.chain(client).collect::<Vec<_>>()
    };
    let others = places(other);
    places(one).iter().any(|place| others.contains(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: &str = "server.1=a:1:2:participant;0.0.0.0:3\n\
                         server.2=b:1:2:participant;0.0.0.0:3\n\
                         server.3=c:1:2:participant;0.0.0.0:3\nversion=100000000";

    fn check(request: &ReconfigRequest<'_>, expected: Result<&[i64], ErrorCode>) {
        let current = Membership::parse_text(THREE).unwrap();
        let found = plan_reconfig(&current, None, request, Zxid(0x1_0000_0007), 2);
        let found = found.map(|next| {
            assert_eq!(next.version, 0x1_0000_0007);
            next.members.keys().map(|id| id.0).collect::<Vec<_>>()
        });
        assert_eq!(found.as_deref().map_err(|code| *code), expected, "{request:?}");
    }

    fn request<'a>(joining: &'a str, leaving: &'a str, version: i64) -> ReconfigRequest<'a> {
        ReconfigRequest {
            joining: Some(joining.into()),
            leaving: Some(leaving.into()),
            new_members: None,
            current_config: version,
        }
    }

    #[test]
    fn servers_join_and_leave() {
        check(&request("", "3", -1), Ok(&[1, 2]));
        check(&request("server.4=d:1:2;3", "", 0x1_0000_0000), Ok(&[1, 2, 3, 4]));
        check(&request("server.4=d:1:2:observer;3,server.5=e:1:2;3", "1", -1), Ok(&[2, 3, 4, 5]));
        check(&request("server.2=x:1:2;3", "", -1), Ok(&[1, 2, 3]));
    }

    #[test]
    fn what_is_wrong_with_a_request_is_said() {
        check(&request("", "3", 7), Err(ErrorCode::BadVersion));
        check(&request("", "2,3", -1), Err(ErrorCode::BadArguments));
        check(&request("", "x", -1), Err(ErrorCode::BadArguments));
        check(&request("server.4", "", -1), Err(ErrorCode::BadArguments));
        check(&request("server.4=d:1:2", "", -1), Err(ErrorCode::BadArguments));
        check(&request("server.4=a:1:5;3", "", -1), Err(ErrorCode::BadArguments));
        let current = Membership::parse_text(THREE).unwrap();
        let busy = plan_reconfig(&current, Some(&current), &request("", "3", -1), Zxid(1), 2);
        assert_eq!(busy, Err(ErrorCode::ReconfigInProgress));
    }

    #[test]
    fn the_whole_list_may_be_replaced() {
        let whole = |members: &'static str| ReconfigRequest {
            joining: None,
            leaving: None,
            new_members: Some(members.into()),
            current_config: -1,
        };
        check(&whole("server.1=a:1:2;3,server.7=g:1:2;3"), Ok(&[1, 7]));
        check(&whole("server.1=a:1:2;3\nserver.7=g:1:2;3"), Ok(&[1, 7]));
        check(&whole("server.1=a:1:2;3"), Err(ErrorCode::BadArguments));
        check(&whole("server.1=a:1:2;3,server.7=a:1:9;4"), Err(ErrorCode::BadArguments));
        check(&whole("nonsense"), Err(ErrorCode::BadArguments));
    }
}
