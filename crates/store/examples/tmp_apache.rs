#![allow(missing_docs, clippy::unwrap_used)]
use std::path::Path;
use std::sync::Arc;
use herdsman_store::*;
use herdsman_store::log::record::RecordReader;
fn main() {
    let mode = std::env::args().nth(1).unwrap();
    let out = std::env::args().nth(2).unwrap();
    let root = Path::new(&out);
    let dirs = Dirs::below(root, root);
    if mode == "read" {
        let r = recover(&RealDisk, &dirs, &RecoverOptions::default(), &mut |_| {}).unwrap();
        println!("{} digest {} nodes {} sessions {} mismatch {:?} txns {} snap {:?}", r.tree.last_zxid(), r.tree.digest(), r.tree.node_count(), r.tree.sessions().count(), r.digest_mismatch, r.txns_replayed, r.snapshot.map(|s| s.path));
        return;
    }
    let fix = Path::new("fixtures/apache-3.9.5/plain/version-2");
    let memory = MemoryDisk::new();
    let mdirs = Dirs::below(Path::new("/d"), Path::new("/d"));
    memory.put(&mdirs.data.join("snapshot.54"), std::fs::read(fix.join("snapshot.54")).unwrap());
    let r = recover(&memory, &mdirs, &RecoverOptions::default(), &mut |_| {}).unwrap();
    dirs.create(&RealDisk).unwrap();
    let c = match mode.as_str() { "gz" => Compression::Gzip, "snappy" => Compression::Snappy, _ => Compression::None };
    let f = write_snapshot(Arc::new(RealDisk), &dirs.data, c, &r.tree, LastZxid::Write).unwrap();
    println!("{f:?}");
    let mut w = LogWriter::new(Arc::new(RealDisk), &dirs.log, r.tree.last_zxid(), LogOptions::default());
    let mut rd = RecordReader::open(&RealDisk, &fix.join("log.55")).unwrap();
    let mut n = 0;
    while let Some(rec) = rd.next_record().unwrap() {
        w.append(rec.zxid, rec.payload).unwrap();
        n += 1;
        if n % 5 == 0 { w.flush(SyncMode::Sync).unwrap(); }
        if n == 10 { w.roll(); }
    }
    println!("{:?}", w.flush(SyncMode::Sync).unwrap());
}
