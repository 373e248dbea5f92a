//! Passwords are not disclosed: a server that is configured with many of them prints everything it can print, and none
//! of them appears.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use crate::process::{config, herdsman, word};
use crate::protection::{locked, run, text};
use herdsman_testing::Authority;

/// Every secret has this in it.
const MARK: &str = "hush";
/// Four-letter words that always return some text.
const WORDS: [&str; 12] = [
    "conf", "cons", "crst", "dirs", "dump", "envi", "gtmk", "isro", "mntr", "srvr", "stat", "wchs",
];

/// A server that logs at trace level. A thread reads the log all the time, because otherwise the pipe would fill up.
struct TraceLoggingServer {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl TraceLoggingServer {
    fn start(mut command: Command) -> Self {
        let mut child = command.env("HERDSMAN_LOG", "trace").spawn().expect("the binary runs");
        let log = BufReader::new(child.stderr.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                _ = sender.send(line);
            }
        });
        TraceLoggingServer { child, lines, seen: Vec::new() }
    }

    /// Returns what follows a text in the next log line that contains it.
    fn after(&mut self, text: &str) -> String {
        loop {
            let line = self.lines.recv().unwrap_or_else(|_| panic!("{:#?}", self.seen));
            self.seen.push(line.clone());
            if let Some((_, rest)) = line.split_once(text) {
                return rest.split(',').next().expect("a part").to_owned();
            }
        }
    }

    fn port(&mut self, text: &str) -> u16 {
        let address = self.after(text);
        address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
    }

    /// Stops the server, and returns its whole log.
    fn end(mut self) -> Vec<String> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        let mut seen = std::mem::take(&mut self.seen);
        seen.extend(self.lines.iter());
        assert!(self.child.wait().expect("it ends").success());
        seen
    }
}

impl Drop for TraceLoggingServer {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Writes a configuration with a secret in every setting that takes one.
fn full_of_secrets(directory: &Path, authority: &Authority) -> String {
    let jaas = directory.join("jaas.conf");
    let section = "org.apache.zookeeper.server.auth.DigestLoginModule required \
                   user_super=\"hush-jaas\" user_ann=\"hush-ann\";";
    std::fs::write(&jaas, format!("Server {{ {section} }};")).expect("written");
    let key = locked(&authority.sign("server"), "hush-key");
    let stores = ["ssl.", "ssl.quorum.", "metricsProvider.ssl."].map(|prefix| {
        format!(
            "{prefix}keyStore.location={}\n{prefix}keyStore.password=hush-key\n\
             {prefix}trustStore.location={}\n{prefix}trustStore.password=hush-trust\n",
            text(&key),
            text(&authority.trust_store()),
        )
    });
    format!(
        "4lw.commands.whitelist=*\nsecureClientPort=0\nadmin.portUnification=true\n{}\
         java.security.auth.login.config={}\n\
         authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n\
         SASLAuthenticationProvider.superPassword=hush-super\n\
         DigestAuthenticationProvider.superDigest=super:hush-digest\n\
         metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n\
         metricsProvider.somePassword=hush-metrics\nmy.own.password=hush-unknown\n\
         # ssl.keyStore.password=hush-comment\n",
        stores.concat(),
        text(&jaas),
    )
}

fn get(url: &str) -> String {
    let config = ureq::Agent::config_builder().http_status_as_error(false).build();
    let mut response = ureq::Agent::new_with_config(config).get(url).call().expect("it answers");
    response.body_mut().read_to_string().expect("text")
}

/// Returns the output of a shell with these lines as input.
fn shell(address: &str, user: Option<(&str, &str)>, lines: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_herdsman"));
    command.args(["shell", "--servers", address]).env("HERDSMAN_LOG", "trace");
    if let Some((name, password)) = user {
        command.args(["--sasl-user", name]).env("HERDSMAN_SASL_PASSWORD", password);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    let mut input = child.stdin.take().expect("piped");
    // A shell whose login failed ends without reading.
    _ = input.write_all(lines.as_bytes());
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn a_server_never_shows_a_secret() {
    let authority = Authority::new();
    let place = tempfile::TempDir::new().expect("a temporary directory");
    let directory = config(&full_of_secrets(place.path(), &authority));
    let mut command = herdsman(directory.path(), &["zoo.cfg"]);
    command.env("SERVER_JVMFLAGS", "-Dzookeeper.some.password=hush-flag");
    let mut server = TraceLoggingServer::start(command);
    let admin = server.after("console and admin commands on ");
    let port = server.port("serving clients on ");
    let address = format!("127.0.0.1:{port}");

    let mut said = Vec::new();
    said.extend(WORDS.map(|name| (name.to_owned(), word(port, name))));
    for name in ["conf", "envi", "icfg", "sysp", "mntr", "cons", "stat", "dump", "zabstate"] {
        said.push((name.to_owned(), get(&format!("{admin}/commands/{name}"))));
    }
    for path in ["metrics", "api/v1/server", "api/v1/whoami", "api/v1/sessions"] {
        said.push((path.to_owned(), get(&format!("{admin}/{path}"))));
    }
    // The credentials of clients, right and wrong.
    let of_super = shell(&address, Some(("super", "hush-super")), "whoami\n");
    assert!(of_super.contains("sasl: super"), "{of_super}");
    let of_ann = shell(&address, Some(("ann", "hush-wrong")), "whoami\n");
    assert!(of_ann.contains("authentication failed"), "{of_ann}");
    let of_bob = shell(&address, None, "addauth digest bob:hush-bob\nwhoami\n");
    assert!(of_bob.contains("digest: bob"), "{of_bob}");
    said.extend([("super", of_super), ("ann", of_ann), ("bob", of_bob)].map(named));
    let checked = run(&["server", "--check", text(&directory.path().join("zoo.cfg"))], None);
    said.push(("--check".to_owned(), String::from_utf8_lossy(&checked.stderr).into_owned()));
    let arguments = std::fs::read(format!("/proc/{}/cmdline", server.child.id()));
    said.push(("arguments".to_owned(), String::from_utf8_lossy(&arguments.unwrap()).into_owned()));
    said.push(("log".to_owned(), server.end().join("\n")));

    for (what, text) in said {
        assert!(!text.is_empty(), "{what} says nothing");
        let shown = text.lines().find(|line| line.contains(MARK));
        assert_eq!(shown, None, "{what} shows a secret");
    }
}

fn named((name, text): (&str, String)) -> (String, String) {
    (name.to_owned(), text)
}
