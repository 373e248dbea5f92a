//! A disk that is full or broken: writes are rejected, reads continue, nothing acknowledged is lost.

use std::num::NonZeroU64;
use std::sync::Arc;

use herdsman_config::Config;
use herdsman_config::{Endpoint, Storage};
use herdsman_proto::ErrorCode;
use herdsman_server::Server;
use herdsman_store::{Dirs, Disk, Epochs, MemoryDisk, RealDisk, replace};
use herdsman_testing::TestServer;
use herdsman_tree::{Tree, TreeOptions};

use crate::client::{Client, code, create};

fn start(disk: &Arc<MemoryDisk>) -> Server {
    start_with(disk, |_| {})
}

fn start_with(disk: &Arc<MemoryDisk>, change: impl FnOnce(&mut Storage)) -> Server {
    let mut config = Config::standalone_default(&Default::default()).unwrap().config;
    config.listen.client = Some(Endpoint { host: Some("127.0.0.1".to_owned()), port: 0 });
    config.storage.data_dir = "/data".into();
    config.storage.log_dir = "/data".into();
    config.storage.preallocate_bytes = 4096;
    change(&mut config.storage);
    let disk: Arc<dyn herdsman_store::Disk> = Arc::clone(disk) as _;
    Server::start_on(config, &disk).unwrap()
}

#[test]
fn a_failed_sync_ends_writing_but_not_reading() {
    let disk = Arc::new(MemoryDisk::new());
    let server = start(&disk);
    let address = server.address().unwrap();
    let mut writer = Client::connect(address);
    let mut reader = Client::connect(address);
    writer.create("/kept", b"1", 0).ok();
    disk.fail_sync(0);
    assert_eq!(
        writer.try_call(&create("/lost", b"", 0)),
        None,
        "its fate is unknown, so the connection closes"
    );
    assert_eq!(reader.create("/refused", b"", 0).error, code(ErrorCode::SystemError));
    assert_eq!(reader.get("/kept", false).unwrap().0, b"1");
    assert_eq!(
        reader.get("/lost", false),
        Err(code(ErrorCode::NoNode)),
        "what is not durable is not shown"
    );
    let again = Client::reattach(address, writer.session);
    assert!(again.is_some(), "sessions that exist can be taken up to read");
    server.kill();

    disk.crash(|_| false);
    let server = start(&disk);
    let mut client = Client::connect(server.address().unwrap());
    assert_eq!(client.get("/kept", false).unwrap().0, b"1");
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    let disk = Arc::new(MemoryDisk::new());
    let server = start(&disk);
    let address = server.address().unwrap();
    let mut writer = Client::connect(address);
    let mut reader = Client::connect(address);
    writer.create("/kept", b"1", 0).ok();
    disk.set_capacity(Some(0));
    let big = vec![1; 100_000];
    assert_eq!(writer.try_call(&create("/waits", &big, 0)), None);
    assert_eq!(reader.create("/refused", b"", 0).error, code(ErrorCode::SystemError));
    assert_eq!(reader.get("/kept", false).unwrap().0, b"1");
    disk.set_capacity(None);
    // What was in flight goes first; then writes are taken again.
    while reader.create("/after", b"", 0).error == code(ErrorCode::SystemError) {
        std::thread::yield_now();
    }
    assert!(reader.get("/waits", false).is_ok());
    assert!(reader.get("/after", false).is_ok());
}

/// A log file that cannot be opened because no file descriptor is free is not a failed disk.
#[test]
fn writes_are_taken_again_when_files_can_be_opened() {
    let disk = Arc::new(MemoryDisk::new());
    // Every batch has a file of its own.
    let server = start_with(&disk, |storage| storage.log_file_bytes_max = NonZeroU64::new(1));
    let address = server.address().unwrap();
    let mut writer = Client::connect(address);
    let mut reader = Client::connect(address);
    writer.create("/kept", b"1", 0).ok();
    disk.set_openable(false);
    assert_eq!(writer.try_call(&create("/waits", b"", 0)), None);
    assert_eq!(reader.create("/refused", b"", 0).error, code(ErrorCode::SystemError));
    assert_eq!(reader.get("/kept", false).unwrap().0, b"1");
    disk.set_openable(true);
    while reader.create("/after", b"", 0).error == code(ErrorCode::SystemError) {
        std::thread::yield_now();
    }
    assert!(reader.get("/waits", false).is_ok());
    server.kill();

    disk.crash(|_| false);
    let server = start(&disk);
    let mut client = Client::connect(server.address().unwrap());
    assert!(client.get("/waits", false).is_ok());
}

/// A restore that was decided on is finished by a start, also over files that would otherwise prevent one: it replaces
/// the epochs and removes logs that are in the wrong directory.
#[test]
fn a_start_finishes_a_restore_whatever_it_replaces() {
    let logs = tempfile::tempdir().unwrap();
    let mut server =
        TestServer::start_with(|config| config.storage.log_dir = logs.path().to_owned());
    Client::connect(server.address()).create("/old", b"", 0).ok();
    server.stop();

    let dirs = Dirs::below(server.data_dir(), logs.path());
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let epochs = Epochs { current: 0, accepted: 3 };
    let staged =
        replace::stage(&disk, &dirs, &Tree::new(TreeOptions::default()), epochs, &[]).unwrap();
    staged.decide(&*disk).unwrap();
    std::fs::write(dirs.data.join("acceptedEpoch"), "damaged").unwrap();
    std::fs::write(dirs.data.join("log.1"), "in the wrong directory").unwrap();

    server.start_again();
    let mut client = Client::connect(server.address());
    assert_eq!(client.get("/old", false), Err(code(ErrorCode::NoNode)));
    assert_eq!(std::fs::read(dirs.data.join("acceptedEpoch")).unwrap(), b"3");
    assert!(!dirs.data.join("log.1").exists());
}
