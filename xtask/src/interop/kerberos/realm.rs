//! A Kerberos realm: a key distribution centre on a free port of the loopback address, principals, and
//! files with their keys. It is stopped on drop.

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::ensemble::dies_with_us;
use crate::ports;
use crate::run;

/// The name in kazoo's tests.
pub const NAME: &str = "KAZOOTEST.ORG";

const START_MAX: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);

/// Principals, and the file with each one's key in the realm's directory.
const PRINCIPALS: &[(&str, &str)] = &[
    ("client", "client.keytab"),
    ("other", "other.keytab"),
    ("client/field", "field.keytab"),
    // The file name is the one in kazoo's tests.
    ("zookeeper/127.0.0.1", "server.keytab"),
    ("zookeeper/localhost", "zookeeper.keytab"),
    ("zookeeper/elsewhere", "elsewhere.keytab"),
    ("zkquorum/127.0.0.1", "quorum.keytab"),
    ("learner/127.0.0.1", "learner.keytab"),
    ("learner", "no-host.keytab"),
    ("learner/elsewhere", "untrusted.keytab"),
];

/// The realm while it runs.
pub struct Realm {
    folder: PathBuf,
    centre: Child,
}

impl Realm {
    /// Creates the files and starts the realm.
    pub fn start(folder: &Path) -> Result<Realm> {
        fs::create_dir_all(folder)?;
        let port = ports::free_ports(1)?;
        fs::write(folder.join("krb5.conf"), client_settings(folder, port))?;
        fs::write(folder.join("kdc.conf"), centre_settings(folder, port))?;
        let tool = |words: &[&str]| {
            let mut command = Command::new(words[0]);
            run::output(command.args(&words[1..]).envs(environment(folder))).map(drop)
        };
        tool(&["kdb5_util", "create", "-s", "-r", NAME, "-P", "the realm's own secret"])?;
        for (principal, file) in PRINCIPALS {
            tool(&["kadmin.local", "-q", &format!("addprinc -randkey {principal}")])?;
            let file = folder.join(file);
            tool(&["kadmin.local", "-q", &format!("ktadd -k {} {principal}", file.display())])?;
        }
        // The service gets another key, so that the key in the file does not match its tickets.
        tool(&["kadmin.local", "-q", "cpw -randkey zookeeper/elsewhere"])?;
        let mut realm = Realm { folder: folder.to_path_buf(), centre: start_centre(folder)? };
        realm.await_answer(port)?;
        Ok(realm)
    }

    /// The directory with the realm's files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The environment of a program that uses this realm and no other.
    pub fn environment(&self) -> Vec<(String, String)> {
        environment(&self.folder)
    }

    fn await_answer(&mut self, port: u16) -> Result<()> {
        let deadline = Instant::now() + START_MAX;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let log = || run::tail(&self.folder.join("centre.log"), 20);
            ensure!(self.centre.try_wait()?.is_none(), "krb5kdc has ended:\n{}", log());
            ensure!(Instant::now() < deadline, "krb5kdc does not answer:\n{}", log());
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Realm {
    fn drop(&mut self) {
        // It may have ended already; a failure here would only hide that of the test.
        let _ = self.centre.kill();
        let _ = self.centre.wait();
    }
}

fn environment(folder: &Path) -> Vec<(String, String)> {
    [
        ("KRB5_CONFIG", "", "krb5.conf"),
        ("KRB5_KDC_PROFILE", "", "kdc.conf"),
        ("KRB5CCNAME", "FILE:", "tickets"),
        ("KRB5RCACHENAME", "file2:", "replays"),
        // No program here uses the system's own key tables, and there are none.
        ("KRB5_KTNAME", "FILE:", "no.keytab"),
        ("KRB5_CLIENT_KTNAME", "FILE:", "no.keytab"),
    ]
    .map(|(name, kind, file)| (name.to_owned(), format!("{kind}{}", folder.join(file).display())))
    .to_vec()
}

fn client_settings(folder: &Path, port: u16) -> String {
    format!(
        "[libdefaults]\n\
         default_realm = {NAME}\n\
         dns_lookup_kdc = false\n\
         dns_lookup_realm = false\n\
         dns_canonicalize_hostname = false\n\
         rdns = false\n\
         udp_preference_limit = 1\n\
         [realms]\n\
         {NAME} = {{\n    kdc = 127.0.0.1:{port}\n}}\n\
         [logging]\n\
         kdc = FILE:{}\n",
        folder.join("centre.log").display()
    )
}

fn centre_settings(folder: &Path, port: u16) -> String {
    let file = |name: &str| folder.join(name).display().to_string();
    // By default, clocks may differ by five minutes; no test waits that long for a ticket to expire.
    format!(
        "[libdefaults]\n\
         clockskew = 3\n\
         [kdcdefaults]\n\
         kdc_listen = 127.0.0.1:{port}\n\
         kdc_tcp_listen = 127.0.0.1:{port}\n\
         [realms]\n\
         {NAME} = {{\n    database_name = {}\n    key_stash_file = {}\n    acl_file = {}\n}}\n",
        file("principals"),
        file("stash"),
        file("acl"),
    )
}

fn start_centre(folder: &Path) -> Result<Child> {
    let log = File::create(folder.join("centre.out"))?;
    let mut words = dies_with_us();
    words.extend(["krb5kdc".to_owned(), "-n".to_owned()]);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).envs(environment(folder)).stdin(Stdio::null());
    Ok(command.stdout(log.try_clone()?).stderr(log).spawn()?)
}
