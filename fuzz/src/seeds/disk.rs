//! Seeds from the disk formats.

use std::path::Path;
use std::sync::Arc;

use herdsman_proto::txn::{CreateKind, CreateTxn, Entry};
use herdsman_proto::{
    Acl, ErrorCode, JuteWrite, Perms, SessionId, Txn, TxnDigest, TxnHeader, Zxid,
};
use herdsman_store::log::{HEADER, encode_record};
use herdsman_store::{
    COPIES_FILE, Dirs, Disk, EpochFile, LogOptions, LogWriter, MemoryDisk, SyncMode,
    recover_epochs, write_epoch,
};
use herdsman_tree::{Tree, TreeOptions};

use super::{Seeds, numbered};
use crate::targets::epochs::{COPY_BYTES, SECOND_COPY};
use crate::targets::snapshot::{contents, sealed};

const SESSION: SessionId = SessionId(0x0100_0000_0000_0001);

fn create(path: &str, kind: CreateKind, parent_cversion: i32) -> Txn {
    Txn::Create(CreateTxn {
        kind,
        path: path.into(),
        data: Some(Arc::from(&b"data"[..])),
        acl: vec![Acl::world(Perms::ALL)],
        parent_cversion,
    })
}

/// A short, consistent history.
fn history() -> Vec<Txn> {
    let plain = |ephemeral, with_stat| CreateKind::Plain { ephemeral, with_stat };
    let set_data = |path: &str, version| Txn::SetData {
        path: path.into(),
        data: None,
        version,
        reconfig: false,
    };
    vec![
        Txn::CreateSession { timeout_ms: 30_000 },
        create("/a", plain(false, false), 1),
        create("/a/e", plain(true, true), 1),
        create("/a/c", CreateKind::Container, 2),
        create("/a/t", CreateKind::Ttl(60_000), 3),
        set_data("/a", 1),
        Txn::SetAcl { path: "/a/c".into(), acl: vec![Acl::world(Perms::READ)], version: 1 },
        Txn::error(ErrorCode::NoNode),
        Txn::Multi(vec![
            Txn::Check { path: "/a".into(), version: 2 },
            create("/b", plain(false, false), 2),
            set_data("/b", 1),
            Txn::Delete { path: "/b".into(), container: false },
        ]),
        Txn::Multi(vec![Txn::Error(0), Txn::error(ErrorCode::BadVersion)]),
        Txn::Delete { path: "/a/t".into(), container: true },
        Txn::CloseSession { ephemerals: Some(vec!["/a/e".into()]) },
        Txn::CloseSession { ephemerals: None },
    ]
}

fn payloads() -> Vec<Vec<u8>> {
    let numbered = history().into_iter().zip(1..);
    numbered
        .map(|(txn, number)| {
            let digest = TxnDigest { version: TxnDigest::VERSION, tree_digest: number };
            let digest = (!matches!(txn, Txn::Error(_))).then_some(digest);
            let header =
                TxnHeader { session: SESSION, cxid: 1, zxid: Zxid(number), time_ms: 1_700_000 };
            let mut bytes = Vec::new();
            Entry { header, txn, digest }.encode(&mut bytes);
            bytes
        })
        .collect()
}

pub(super) fn txns() -> Seeds {
    numbered(payloads())
}

pub(super) fn logs() -> Seeds {
    let mut file = HEADER.to_vec();
    let mut wrapped = vec![1];
    for payload in payloads() {
        encode_record(&payload, &mut file);
        wrapped.put_raw(&(payload.len() as u16).to_be_bytes());
        wrapped.put_raw(&payload);
    }
    let whole = [&[0], file.as_slice()].concat();
    let mut padded = whole.clone();
    padded.extend([0; 64]);
    let mut torn = whole.clone();
    torn.truncate(whole.len() - 9);
    let empty = [&[0], &HEADER[..]].concat();
    numbered([whole, padded, torn, empty, vec![0], wrapped])
}

pub(super) fn snapshots() -> Seeds {
    let mut tree = Tree::new(TreeOptions::default());
    let empty = contents(&tree);
    for payload in payloads() {
        let entry = Entry::decode(&payload).expect("we have just encoded it");
        tree.apply(&entry, &mut herdsman_tree::Events::new());
    }
    let full = contents(&tree);
    let file = |mode: u8, bytes: &[u8]| [&[mode], bytes].concat();
    numbered([file(3, &empty), file(3, &full), file(0, &sealed(&full)), file(0, &sealed(&empty))])
}

pub(super) fn epochs() -> Seeds {
    let (disk, dir) = (MemoryDisk::new(), Path::new("/seeds"));
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    disk.create_dir(dir).expect("a disk in memory takes everything");
    for (file, epoch) in [(EpochFile::Accepted, 6), (EpochFile::Current, 5)] {
        write_epoch(&*shared, dir, file, epoch).expect("epochs that rise");
    }
    let dirs = Dirs { data: dir.into(), log: dir.into() };
    // A start makes the copies.
    recover_epochs(&*shared, &dirs, Zxid(5 << 32)).expect("these epochs fit each other");
    let mut log = LogWriter::new(shared, dir, Zxid(5 << 32), LogOptions::default()).noted_in(dir);
    log.append(Zxid(5 << 32 | 1), &payloads()[0]).expect("smaller than the limit");
    log.flush(SyncMode::Sync).expect("a disk in memory takes everything");
    let whole = disk.content(&dir.join(COPIES_FILE)).expect("it was written");
    let mut second_only = whole.clone();
    second_only[9] ^= 1;
    let copy = &whole[..COPY_BYTES];
    let mut impossible = copy.to_vec();
    impossible[8] = 0xff;
    numbered([
        [&[0], &whole[..]].concat(),
        [&[0], &second_only[..]].concat(),
        [&[0], &whole[..SECOND_COPY]].concat(),
        [&[3], copy, copy].concat(),
        [&[2], &impossible[..], copy].concat(),
        [&[3], &impossible[..], copy].concat(),
        vec![0],
    ])
}

pub(super) fn properties() -> Seeds {
    let files = [
        "tickTime=2000\ninitLimit=10\ndataDir=/var/lib/zookeeper\nclientPort=2181\n",
        "# a comment\n! another\nserver.1=a:2888:3888;2181\nserver.2 : b:2888:3888:observer\r\n",
        "key\\ with\\=odd\\:characters = value \\\n    goes on \\u00e9\\t\\\\ end\n",
        "dup=1\ndup=2\n\u{feff}x=\u{fc}\n=no key\nno value\n",
        "broken=\\u12",
    ];
    numbered(files.map(|file| file.as_bytes().to_vec()))
}
