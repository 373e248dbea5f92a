//! The replies of a server, as our client reads them.

use herdsman_proto::event::WatchedEvent;
use herdsman_proto::reply::ReplyHeader;
use herdsman_proto::{Acl, JuteReader, Stat, StatPersisted, Zxid};

/// In: the payload of a reply or notification.
pub fn run(bytes: &[u8]) {
    let mut reader = JuteReader::new(bytes);
    let Ok((_, zxid, _)) = ReplyHeader::decode(&mut reader) else {
        assert!(bytes.len() < ReplyHeader::BYTES);
        return;
    };
    event(reader, zxid);
    records(reader);
}

fn event(mut reader: JuteReader<'_>, zxid: Zxid) {
    let Ok((kind, path)) = WatchedEvent::decode(&mut reader) else {
        return;
    };
    let mut frame = Vec::new();
    WatchedEvent { kind, path: &path }.encode_frame(zxid, &mut frame);
    let mut again = JuteReader::new(&frame[4 + ReplyHeader::BYTES..]);
    assert_eq!(WatchedEvent::decode(&mut again), Ok((kind, path)));
}

fn records(reader: JuteReader<'_>) {
    let mut out = Vec::new();
    if let Ok(stat) = Stat::decode(&mut reader.clone()) {
        stat.encode(&mut out);
        assert_eq!(out, reader.rest()[..Stat::BYTES]);
    }
    out.clear();
    if let Ok(stat) = StatPersisted::decode(&mut reader.clone()) {
        stat.encode(&mut out);
        assert_eq!(out, reader.rest()[..StatPersisted::BYTES]);
    }
    out.clear();
    if let Ok(acl) = Acl::decode(&mut reader.clone()) {
        acl.encode(&mut out);
        assert_eq!(Acl::decode(&mut JuteReader::new(&out)), Ok(acl));
    }
    let mut texts = reader;
    if let Ok(texts) = texts.vector(JuteReader::required_string) {
        assert!(texts.len() <= reader.rest().len() / 4, "no more than were sent");
    }
}
