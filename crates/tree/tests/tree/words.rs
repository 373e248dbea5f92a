//! A notation for requests and replies, one per line, so that a table of cases is easy to read: `create /a
//! data flags=3 acl=digest:u:h:r` → request, outcome → `/a0000000000`.
//!
//! `-` stands for null data, `''` for empty text. The node's scripts use this file as well.

use std::borrow::Cow;

use herdsman_proto::multi::MultiHeader;
use herdsman_proto::reply::ReplyHeader;
use herdsman_proto::request::{CreateRequest, ReconfigRequest, SetWatches, Text, WatcherType};
use herdsman_proto::{
    Acl, ErrorCode, Id, JuteReader, OpCode, Perms, ReadRequest, Stat, WatchedEvent, WriteRequest,
    Xid, Zxid,
};

/// A line split into words and `key=value` options.
struct Line<'a> {
    words: Vec<&'a str>,
    options: Vec<(&'a str, &'a str)>,
}

const OPTIONS: &[&str] = &["v", "flags", "acl", "ttl", "data", "exist", "child", "both", "deep"];

impl<'a> Line<'a> {
    fn new(line: &'a str) -> Self {
        let is_option =
            |word: &&'a str| word.split_once('=').is_some_and(|(key, _)| OPTIONS.contains(&key));
        let (options, words): (Vec<_>, Vec<_>) = line.split(' ').partition(is_option);
        let options = options.into_iter().filter_map(|word| word.split_once('=')).collect();
        Line { words, options }
    }

    fn option(&self, key: &str) -> Option<&'a str> {
        self.options.iter().find(|(known, _)| *known == key).map(|&(_, value)| value)
    }

    fn number(&self, key: &str, default: i64) -> i64 {
        self.option(key).map_or(default, number)
    }

    fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    fn text(&self, at: usize) -> Text<'a> {
        match self.words.get(at).copied() {
            Some("''") => Cow::Borrowed(""),
            Some(text) => Cow::Borrowed(text),
            None => panic!("word {at} is missing: {:?}", self.words),
        }
    }

    fn data(&self, at: usize) -> Option<&'a [u8]> {
        match self.words.get(at).copied() {
            None | Some("''") => Some(b""),
            Some("-") => None,
            Some(text) => Some(text.as_bytes()),
        }
    }

    fn version(&self) -> i32 {
        self.number("v", -1) as i32
    }

    fn paths(&self, key: &str) -> Vec<Text<'a>> {
        let list = self.option(key).into_iter();
        list.flat_map(|list| list.split(',').map(Cow::Borrowed)).collect()
    }
}

fn number(text: &str) -> i64 {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.expect("a number")
}

/// `scheme:id:perms`, comma separated; `-` is the empty list.
pub fn acl(text: &str) -> Vec<Acl> {
    let entry = |entry: &str| {
        let (who, perms) = entry.rsplit_once(':').expect("perms come last");
        let (scheme, id) = who.split_once(':').expect("a scheme and an id");
        Acl { perms: Perms(perms.bytes().map(perm).sum()), id: Id::new(scheme, id) }
    };
    text.split(',').filter(|entry| *entry != "-").map(entry).collect()
}

fn perm(letter: u8) -> i32 {
    let at = b"rwcda".iter().position(|&known| known == letter);
    1 << at.expect("one of rwcda")
}

/// A write request.
pub fn write(line: &str) -> WriteRequest<'_> {
    if let Some(writes) = line.strip_prefix("multi") {
        let writes = writes.trim().split(" ; ").filter(|write| !write.is_empty());
        return WriteRequest::Multi(writes.map(write_single).collect());
    }
    write_single(line)
}

fn write_single(line: &str) -> WriteRequest<'_> {
    let words = Line::new(line);
    let version = words.version();
    match words.words[0] {
        "delete" => WriteRequest::Delete { path: words.text(1), version },
        "set" => WriteRequest::SetData { path: words.text(1), data: words.data(2), version },
        "setacl" => WriteRequest::SetAcl { path: words.text(1), acl: acl(&words.text(2)), version },
        "check" => WriteRequest::Check { path: words.text(1), version },
        "reconfig" => {
            let named = |key| words.words.iter().find_map(|word| word.strip_prefix(key));
            WriteRequest::Reconfig(ReconfigRequest {
                joining: named("joining=").map(Text::from),
                leaving: named("leaving=").map(Text::from),
                new_members: named("members=").map(Text::from),
                current_config: -1,
            })
        }
        verb => WriteRequest::Create(create(verb, &words)),
    }
}

fn create<'a>(verb: &str, words: &Line<'a>) -> CreateRequest<'a> {
    let op = match verb {
        "create" => OpCode::Create,
        "create2" => OpCode::Create2,
        "createContainer" => OpCode::CreateContainer,
        "createTTL" => OpCode::CreateTtl,
        _ => panic!("{verb} is not a write"),
    };
    let usual_flags = match op {
        OpCode::CreateContainer => 4,
        OpCode::CreateTtl => 5,
        _ => 0,
    };
    CreateRequest {
        op,
        path: words.text(1),
        data: words.data(2),
        acl: acl(words.option("acl").unwrap_or("world:anyone:rwcda")),
        flags: words.number("flags", usual_flags) as i32,
        ttl_ms: (op == OpCode::CreateTtl).then(|| words.number("ttl", 1000)),
    }
}

/// A read request; `None` if the line is something else.
pub fn read(line: &str) -> Option<ReadRequest<'_>> {
    if let Some(reads) = line.strip_prefix("multiRead") {
        let reads = reads.trim().split(" ; ").filter(|read| !read.is_empty());
        return Some(ReadRequest::MultiRead(reads.filter_map(read_single).collect()));
    }
    read_single(line)
}

fn read_single(line: &str) -> Option<ReadRequest<'_>> {
    let words = Line::new(line);
    let watch = words.has("watch");
    Some(match words.words[0] {
        "exists" => ReadRequest::Exists { path: words.text(1), watch },
        "get" => ReadRequest::GetData { path: words.text(1), watch },
        "getacl" => ReadRequest::GetAcl { path: words.text(1) },
        verb @ ("ls" | "ls2") => {
            ReadRequest::GetChildren { path: words.text(1), watch, with_stat: verb == "ls2" }
        }
        "count" => ReadRequest::GetAllChildrenNumber { path: words.text(1) },
        "ephemerals" => {
            ReadRequest::GetEphemerals { prefix: (words.words.len() > 1).then(|| words.text(1)) }
        }
        "hasWatch" => {
            ReadRequest::CheckWatches { path: words.text(1), kind: watcher_type(&words.text(2)) }
        }
        "removeWatch" => {
            ReadRequest::RemoveWatches { path: words.text(1), kind: watcher_type(&words.text(2)) }
        }
        "addWatch" => {
            ReadRequest::AddWatch { path: words.text(1), recursive: words.has("recursive") }
        }
        "setWatches" => ReadRequest::SetWatches(SetWatches {
            relative_zxid: Zxid(number(&words.text(1))),
            data: words.paths("data"),
            exist: words.paths("exist"),
            child: words.paths("child"),
            persistent: words.paths("both"),
            persistent_recursive: words.paths("deep"),
        }),
        "whoami" => ReadRequest::WhoAmI,
        _ => return None,
    })
}

fn watcher_type(text: &str) -> WatcherType {
    match text {
        "children" => WatcherType::Children,
        "data" => WatcherType::Data,
        "any" => WatcherType::Any,
        "persistent" => WatcherType::Persistent,
        "recursive" => WatcherType::PersistentRecursive,
        _ => panic!("{text} is not a kind of watch"),
    }
}

/// A stat without its times; an owner only if there is one.
pub fn stat(stat: &Stat) -> String {
    let mut text = format!(
        "c{} m{} p{} v{} cv{} av{} len{} kids{}",
        stat.czxid.0,
        stat.mzxid.0,
        stat.pzxid.0,
        stat.version,
        stat.cversion,
        stat.aversion,
        stat.data_length,
        stat.num_children
    );
    if stat.ephemeral_owner != 0 {
        text += &format!(" owner{:#x}", stat.ephemeral_owner);
    }
    text
}

/// The body of a read's reply.
pub fn body(request: &ReadRequest<'_>, bytes: &[u8]) -> String {
    let mut reader = JuteReader::new(bytes);
    let text = body_text(request, &mut reader);
    assert!(reader.is_empty(), "{request:?} answered with more: {bytes:?}");
    text
}

fn body_text(request: &ReadRequest<'_>, reader: &mut JuteReader<'_>) -> String {
    match request {
        ReadRequest::Exists { .. } => read_stat(reader),
        ReadRequest::GetData { .. } => format!("{} {}", read_data(reader), read_stat(reader)),
        ReadRequest::GetAcl { .. } => {
            let acl = reader.vector(Acl::decode).expect("a list");
            let entries: Vec<_> = acl
                .iter()
                .map(|entry| format!("{}:{}:{}", entry.id.scheme, entry.id.id, entry.perms.0))
                .collect();
            format!("{} {}", entries.join(","), read_stat(reader))
        }
        ReadRequest::GetChildren { with_stat, .. } => {
            let mut names = read_strings(reader);
            names.sort_unstable();
            let names = format!("[{}]", names.join(","));
            if *with_stat { format!("{names} {}", read_stat(reader)) } else { names }
        }
        ReadRequest::GetAllChildrenNumber { .. } | ReadRequest::AddWatch { .. } => {
            reader.int().expect("a number").to_string()
        }
        ReadRequest::GetEphemerals { .. } => format!("[{}]", read_strings(reader).join(",")),
        ReadRequest::WhoAmI => {
            let pair = |reader: &mut JuteReader<'_>| {
                let scheme = reader.required_string()?;
                Ok(format!("{scheme}:{}", reader.required_string()?))
            };
            reader.vector(pair).expect("a list").join(",")
        }
        ReadRequest::MultiRead(reads) => {
            let results: Vec<_> = reads.iter().map(|read| multi_result(read, reader)).collect();
            assert_eq!(MultiHeader::decode(reader), Ok(MultiHeader::END));
            format!("[{}]", results.join(", "))
        }
        ReadRequest::CheckWatches { .. }
        | ReadRequest::RemoveWatches { .. }
        | ReadRequest::SetWatches(_) => "ok".to_owned(),
    }
}

fn multi_result(read: &ReadRequest<'_>, reader: &mut JuteReader<'_>) -> String {
    let header = MultiHeader::decode(reader).expect("a header");
    if header.op == OpCode::Error.code() {
        assert_eq!(reader.int(), Ok(header.error));
        return format!("{:?}", ErrorCode::from_code(header.error).expect("known"));
    }
    body_text(read, reader)
}

fn read_stat(reader: &mut JuteReader<'_>) -> String {
    stat(&Stat::decode(reader).expect("a stat"))
}

fn read_data(reader: &mut JuteReader<'_>) -> String {
    match reader.buffer().expect("data") {
        None => "-".to_owned(),
        Some(b"") => "''".to_owned(),
        Some(data) => String::from_utf8_lossy(data).into_owned(),
    }
}

fn read_strings(reader: &mut JuteReader<'_>) -> Vec<String> {
    let string = |reader: &mut JuteReader<'_>| reader.required_string().map(Cow::into_owned);
    reader.vector(string).expect("a list of texts")
}

/// Notification frames, one text each.
pub fn late_events(frames: &[u8]) -> Vec<String> {
    let mut frames = JuteReader::new(frames);
    let mut events = Vec::new();
    while let Some(frame) = (!frames.is_empty()).then(|| frames.buffer().expect("a frame")) {
        let mut reader = JuteReader::new(frame.expect("a frame is not null"));
        let (xid, zxid, error) = ReplyHeader::decode(&mut reader).expect("a header");
        assert_eq!((xid, error), (Xid::NOTIFICATION, 0));
        let (kind, path) = WatchedEvent::decode(&mut reader).expect("an event");
        events.push(format!("{kind:?} {path} @{}", zxid.0));
    }
    events
}
