//! However the znodes of a file are read, the same of them are visited, and the same fault is found at the
//! same place.

use herdsman_proto::{Acl, SessionId, Zxid};
use herdsman_tree::{Loader, TreeOptions};

use super::super::{encode_end, encode_node};
use super::*;

/// More than fit into all batches.
const PARENTS: usize = 8;
const CHILDREN: usize = 1500;

/// How znodes are read.
#[derive(Clone, Copy, Debug)]
enum ReadMode {
    /// One by one, straight from the input.
    Plain,
    /// In batches.
    Batches(FillThread),
}

/// A loader that records the paths of its znodes.
struct RecordingLoader {
    loader: Loader,
    paths: Vec<String>,
}

impl SnapshotVisitor for RecordingLoader {
    fn session(&mut self, _: SessionId, _: i32) {}
    fn acl(&mut self, _: i64, _: Vec<Acl>) {}
    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl_key: i64,
        stat: StatPersisted,
    ) -> Result<(), LoadError> {
        self.loader.node(path, data, acl_key, stat)?;
        self.paths.push(path.to_owned());
        Ok(())
    }
    fn wants_digests(&self) -> bool {
        self.loader.wants_digests()
    }
    fn node_with_digest(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl_key: i64,
        stat: StatPersisted,
        digest: u32,
    ) -> Result<(), LoadError> {
        self.loader.node_with_digest(path, data, acl_key, stat, digest)?;
        self.paths.push(path.to_owned());
        Ok(())
    }
}

/// The result of reading.
#[derive(Debug, PartialEq)]
struct ReadResult {
    paths: Vec<String>,
    digest: Option<i64>,
    nodes: Option<u64>,
    fault: Option<(u64, String)>,
}

fn read(content: &[u8], way: ReadMode) -> ReadResult {
    let mut source = content;
    let mut input = Input::of_file(&mut source);
    let mut witness =
        RecordingLoader { loader: Loader::new(TreeOptions::default()), paths: Vec::new() };
    let result = match way {
        ReadMode::Plain => read_plainly(&mut input, &mut witness),
        ReadMode::Batches(place) => {
            let read = AtomicU64::new(0);
            let file = FileRead { bytes: &read, bytes_total: content.len() as u64 };
            read_nodes(&mut input, place, &mut witness, &file, &mut |_| {})
        }
    };
    let fault = match &result {
        Ok(_) => None,
        Err(NodesFault::Input(fault)) => Some((input.offset(), fault.to_string())),
        Err(NodesFault::Refused(offset, error)) => Some((*offset, error.to_string())),
    };
    let tree = witness.loader.finish(Zxid(1)).ok().filter(|_| fault.is_none());
    let digest = tree.map(|tree| tree.digest());
    ReadResult { paths: witness.paths, digest, nodes: result.ok(), fault }
}

fn read_plainly(
    input: &mut Input<'_, &[u8]>,
    witness: &mut RecordingLoader,
) -> Result<u64, NodesFault> {
    let mut nodes = 0;
    while let Some(node) = view_node(input).map_err(NodesFault::Input)? {
        let bytes = node.bytes;
        let visited = witness.node(&node.path, node.data, node.acl_key, node.stat);
        visited.map_err(|error| NodesFault::Refused(input.offset(), error))?;
        input.consume(bytes);
        nodes += 1;
    }
    Ok(nodes)
}

fn check(what: &str, content: &[u8]) -> ReadResult {
    let plain = read(content, ReadMode::Plain);
    for place in [FillThread::Here, FillThread::Thread] {
        let seen = read(content, ReadMode::Batches(place));
        // Thousands of paths in a message help nobody.
        assert_eq!(seen.paths.len(), plain.paths.len(), "{what}, {place:?}");
        assert!(seen == plain, "{what}, {place:?}: {:?}, not {:?}", seen.fault, plain.fault);
    }
    plain
}

fn paths() -> Vec<String> {
    let mut paths = vec![String::new(), "/größe".to_owned()];
    for parent in 0..PARENTS {
        paths.push(format!("/größe/{parent}"));
        paths.extend((0..CHILDREN).map(|child| format!("/größe/{parent}/{child:06}")));
    }
    paths
}

/// The znodes and their end, and where each of them starts.
fn content(paths: &[String]) -> (Vec<u8>, Vec<usize>) {
    let (mut content, mut starts) = (Vec::new(), Vec::new());
    for (index, path) in paths.iter().enumerate() {
        let stat = StatPersisted::created(Zxid(index as i64), 1_700_000_000_000, 0);
        let data = vec![index as u8; index % 300];
        starts.push(content.len());
        encode_node(path, (index % 7 != 0).then_some(&data), -1, &stat, &mut content);
    }
    starts.push(content.len());
    encode_end(&mut content);
    (content, starts)
}

#[test]
fn whole_znodes_make_the_same_tree() {
    let paths = paths();
    let seen = check("whole", &content(&paths).0);
    assert_eq!(seen.nodes, Some(paths.len() as u64));
    assert_eq!(seen.paths, paths);
    assert!(seen.digest.is_some());
}

#[test]
fn a_cut_is_found_where_it_is() {
    let (content, starts) = content(&paths());
    for index in [0, 1, 1000, 6000, starts.len() - 1] {
        for bytes in [0, 3, 4] {
            let seen = check("cut", &content[..starts[index] + bytes]);
            assert_eq!(seen.fault, Some((starts[index] as u64, "it ends too early".to_owned())));
            assert_eq!(seen.paths.len(), index);
        }
    }
}

#[test]
fn a_field_that_makes_no_sense_is_found_where_it_is() {
    let (content, starts) = content(&paths());
    for index in [0, 1, 1000, 6000, starts.len() - 1] {
        for length in [-1, -2] {
            let mut damaged = content.clone();
            damaged[starts[index]..][..4].copy_from_slice(&i32::to_be_bytes(length));
            let seen = check("length", &damaged);
            assert_eq!(seen.fault.map(|(offset, _)| offset), Some(starts[index] as u64));
            assert_eq!(seen.paths.len(), index);
        }
    }
}

#[test]
fn a_znode_that_fits_nowhere_is_found_where_it_is() {
    let whole = paths();
    for index in [2, 1000, 6000, whole.len()] {
        for path in ["", "/größe/none/a", "/größe", "no slash"] {
            let mut wrong = whole.clone();
            wrong.insert(index, path.to_owned());
            let (mut content, starts) = content(&wrong);
            let seen = check(path, &content);
            let offset = seen.fault.as_ref().map(|(offset, _)| *offset);
            assert_eq!(offset, Some(starts[index] as u64), "{path}");
            assert_eq!(seen.paths.len(), index);
            // A cut right behind it, in the same batch, is not reported in its place.
            content.truncate(starts[index + 1] + 2);
            assert!(check(path, &content) == seen, "{path}");
        }
    }
}

#[test]
fn progress_is_told_as_far_as_the_batch_was_read() {
    let (content, _) = content(&paths());
    let told = [FillThread::Here, FillThread::Thread].map(|place| {
        let read = AtomicU64::new(0);
        let mut source = Counting { rest: &content, read: &read };
        let mut input = Input::of_file(&mut source);
        let mut witness =
            RecordingLoader { loader: Loader::new(TreeOptions::default()), paths: Vec::new() };
        let mut told = Vec::new();
        let file = FileRead { bytes: &read, bytes_total: content.len() as u64 };
        let nodes = read_nodes(&mut input, place, &mut witness, &file, &mut |at| told.push(at));
        assert!(nodes.is_ok());
        told
    });
    assert!(told[0].len() > 4 && told[0].is_sorted());
    assert_eq!(told[0], told[1]);
}

#[test]
fn how_many_znodes_will_come_is_told_once_and_about_right() {
    #[derive(Default)]
    struct Expecting {
        seen: usize,
        told: Vec<(usize, usize)>,
    }
    impl SnapshotVisitor for Expecting {
        fn session(&mut self, _: SessionId, _: i32) {}
        fn acl(&mut self, _: i64, _: Vec<Acl>) {}
        fn expect(&mut self, nodes: usize) {
            self.told.push((self.seen, nodes));
        }
        fn node(
            &mut self,
            _: &str,
            _: Option<&[u8]>,
            _: i64,
            _: StatPersisted,
        ) -> Result<(), LoadError> {
            self.seen += 1;
            Ok(())
        }
    }
    let (content, _) = content(&paths());
    let read = AtomicU64::new(0);
    let mut source = Counting { rest: &content, read: &read };
    let mut input = Input::of_file(&mut source);
    let mut visitor = Expecting::default();
    let file = FileRead { bytes: &read, bytes_total: content.len() as u64 };
    let nodes = read_nodes(&mut input, FillThread::Here, &mut visitor, &file, &mut |_| {});
    let nodes = nodes.ok().unwrap() as usize;
    let [(seen, expected)] = visitor.told[..] else { panic!("{:?}", visitor.told) };
    assert!(seen < nodes / 4, "told after {seen} of {nodes}");
    assert!((nodes / 2..nodes * 2).contains(&expected), "{expected} for {nodes}");
}

struct Counting<'a> {
    rest: &'a [u8],
    read: &'a AtomicU64,
}

impl Read for Counting<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.rest.read(buffer)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
