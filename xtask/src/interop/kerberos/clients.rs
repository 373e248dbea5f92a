//! Clients with tickets: the names that a server derives for them, and clients that must be rejected.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::realm;
use crate::interop::c;
use crate::run::{self, Done};
use crate::server::{self, Program, Server, Spec};
use crate::{paths, peers};

const NOT_ALLOWED: &str = "Insufficient permission";
/// Time limit for a ticket of one second to expire.
const EXPIRY_MAX: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(100);

/// Sections of the JAAS file: name, key table, principal.
const SECTIONS: &[(&str, &str, &str)] = &[
    ("Server", "zookeeper.keytab", "zookeeper/localhost"),
    ("Elsewhere", "elsewhere.keytab", "zookeeper/elsewhere"),
    ("Client", "client.keytab", "client"),
    ("Other", "other.keytab", "other"),
    ("Field", "field.keytab", "client/field"),
];

/// System properties of a server.
type Properties<'a> = &'a [(&'a str, &'a str)];

/// Settings about names, and the resulting names of `Client`, `Other` and `Field`.
const NAMES: &[(Properties, [&str; 3])] = &[
    (&[], ["client@KAZOOTEST.ORG", "other@KAZOOTEST.ORG", "client/field@KAZOOTEST.ORG"]),
    (
        &[
            ("zookeeper.kerberos.removeRealmFromPrincipal", "true"),
            ("zookeeper.kerberos.removeHostFromPrincipal", "true"),
        ],
        ["client", "other", "client"],
    ),
    (
        &[
            (
                "zookeeper.security.auth_to_local",
                "RULE:[1:$1@$0](o.*@KAZOOTEST.ORG)s/@.*// RULE:[2:$2-$1]s/^(f)([a-z]+)-/$2$1_/ DEFAULT",
            ),
            ("zookeeper.kerberos.removeRealmFromPrincipal", "true"),
        ],
        ["client", "other", "ieldf_client/field"],
    ),
];

/// A directory with a JAAS file, and that of the realm.
struct World<'a> {
    program: Program,
    work: &'a Path,
    realm: &'a Path,
}

/// All of it.
pub fn run(program: Program, work: &Path, realm: &Path) -> Result<()> {
    let world = World { program, work, realm };
    fs::write(world.jaas(), jaas(realm, SECTIONS))?;
    world.zkcli_logs_in()?;
    println!("ok      zkCli logs in with Kerberos");
    // Apache's server is queried as well, so that the table contains what it actually does.
    for asked in [Program::Apache, program] {
        for (index, (settings, names)) in NAMES.iter().enumerate() {
            world.names_are(asked, index, settings, names)?;
        }
        println!("ok      the names that {} gives clients with Kerberos", asked.name());
    }
    world.shell_uses_tickets()?;
    println!("ok      the shell with tickets of kinit");
    world.c_client_logs_in()?;
    println!("ok      the C client with tickets of kinit");
    world.cyrus_logs_in()?;
    println!("ok      Cyrus, which the C client uses, requesting another identity");
    world.wrong_tickets_are_rejected()?;
    println!("ok      clients with wrong tickets are refused");
    Ok(())
}

/// A JAAS file with these sections.
pub fn jaas(realm: &Path, sections: &[(&str, &str, &str)]) -> String {
    let mut text = String::new();
    for (section, file, principal) in sections {
        let file = realm.join(file);
        // Java would request a ticket for the service at start, which is not needed.
        let more = if principal.starts_with("zookeeper/") { "isInitiator=false" } else { "" };
        _ = writeln!(
            text,
            "{section} {{\n    com.sun.security.auth.module.Krb5LoginModule required\n    \
             useKeyTab=true storeKey=true useTicketCache=false {more}\n    keyTab=\"{}\"\n    \
             principal=\"{principal}@{}\";\n}};",
            file.display(),
            realm::NAME
        );
    }
    text
}

impl World<'_> {
    fn jaas(&self) -> PathBuf {
        self.work.join("jaas.conf")
    }

    fn start(&self, program: Program, name: &str, settings: Properties) -> Result<Server> {
        let mut spec = Spec::new(program, &self.work.join(name));
        spec.settings = vec![
            "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider".to_owned(),
        ];
        let krb5 = self.realm.join("krb5.conf").display().to_string();
        let jaas = self.jaas().display().to_string();
        spec = spec.property("java.security.krb5.conf", &krb5);
        spec = spec.property("java.security.auth.login.config", &jaas);
        for (name, value) in settings {
            spec = spec.property(name, value);
        }
        spec.start()
    }

    /// Returns what zkCli printed.
    fn zkcli(&self, server: &Server, section: &str, commands: &str) -> Result<String> {
        let mut java = server::java(Program::Apache);
        for (name, value) in [
            ("java.security.krb5.conf", self.realm.join("krb5.conf").display().to_string()),
            ("java.security.auth.login.config", self.jaas().display().to_string()),
            ("zookeeper.sasl.clientconfig", section.to_owned()),
        ] {
            java.arg(format!("-D{name}={value}"));
        }
        java.args(["org.apache.zookeeper.ZooKeeperMain", "-waitforconnection"]);
        java.args(["-timeout", "8000", "-server", &by_name(server)]);
        Ok(run::all_output(&mut java, commands)?.printed)
    }

    fn zkcli_logs_in(&self) -> Result<()> {
        let server = self.start(self.program, "zkcli", &[])?;
        let made = "whoami\ncreate /hers secret sasl:client@KAZOOTEST.ORG:cdrwa\nget /hers\nquit\n";
        let hers = self.zkcli(&server, "Client", made)?;
        ensure!(hers.contains("sasl: client@KAZOOTEST.ORG"), "whoami does not know her:\n{hers}");
        ensure!(hers.contains("\nsecret"), "her own znode cannot be read:\n{hers}");
        let other = self.zkcli(&server, "Other", "get /hers\nquit\n")?;
        ensure!(other.contains(NOT_ALLOWED), "another user can read it:\n{other}");
        server.stop()
    }

    /// Returns what our shell did with this client configuration.
    fn shell(&self, server: &Server, lines: &str, words: &[&str]) -> Result<Done> {
        let file = self.work.join("client.properties");
        let plain = "zookeeper.sasl.client.canonicalize.hostname=false";
        fs::write(&file, format!("{plain}\n{lines}\n"))?;
        let mut shell = Command::new(paths::herdsman());
        shell.args(["shell", "--server", &by_name(server), "--client-configuration"]).arg(file);
        run::all_output(shell.args(words), "")
    }

    fn section(&self, section: &str) -> String {
        let jaas = self.jaas();
        format!(
            "java.security.auth.login.config={}\nzookeeper.sasl.clientconfig={section}",
            jaas.display()
        )
    }

    fn names_are(
        &self,
        program: Program,
        index: usize,
        settings: Properties,
        names: &[&str; 3],
    ) -> Result<()> {
        let name = format!("names-{}-{index}", program.name());
        let server = self.start(program, &name, settings)?;
        for (section, name) in ["Client", "Other", "Field"].into_iter().zip(names) {
            let output = self.shell(&server, &self.section(section), &["whoami"])?.printed;
            let is_so = output.lines().any(|line| line == format!("sasl: {name}"));
            ensure!(is_so, "the name of {section} should be {name}:\n{output}");
        }
        server.stop()
    }

    fn shell_uses_tickets(&self) -> Result<()> {
        let server = self.start(self.program, "tickets", &[])?;
        let expected = "sasl: client@KAZOOTEST.ORG";
        let none = self.shell(&server, "", &["--sasl-kerberos", "whoami"])?;
        ensure!(!none.success && none.printed.contains("get one with `kinit`"), "{}", none.printed);
        self.kinit(&[])?;
        let tickets = self.shell(&server, "", &["--sasl-kerberos", "whoami"])?.printed;
        ensure!(tickets.contains(expected), "no login with a ticket:\n{tickets}");
        let jaas = self.jaas().display().to_string();
        let output = self.shell(&server, "", &["--sasl-jaas-file", &jaas, "whoami"])?.printed;
        ensure!(output.contains(expected), "no login with a JAAS file:\n{output}");
        let named = "zookeeper.server.principal=zookeeper/localhost\nzookeeper.server.realm=";
        let named = format!("{named}{}", realm::NAME);
        let output = self.shell(&server, &named, &["--sasl-kerberos", "whoami"])?.printed;
        ensure!(output.contains(expected), "no login to a server given by name:\n{output}");
        server.stop()
    }

    /// Apache's C client with the tickets of `kinit`.
    fn c_client_logs_in(&self) -> Result<()> {
        let server = self.start(self.program, "c", &[])?;
        let create =
            ["--sasl-kerberos", "create", "/hers", "secret", "sasl:client@KAZOOTEST.ORG:r"];
        let created = self.shell(&server, "", &create)?;
        ensure!(created.success, "{}", created.printed);
        let flags = ["--mechlist", "GSSAPI", "--server-fqdn", "localhost", "--user", "client"];
        let flags = [&flags[..], &["--realm", realm::NAME]].concat();
        let get = |flags: &[&str]| {
            c::printed_by(&peers::secure_cli(), flags, &by_name(&server), "get /hers")
        };
        let hers = get(&flags)?;
        ensure!(hers.contains("secret"), "her own znode cannot be read:\n{hers}");
        let anonymous = get(&[])?;
        ensure!(
            anonymous.contains("rc = -102"),
            "a client without a login can read it:\n{anonymous}"
        );
        server.stop()
    }

    /// Runs a script with the library of the C client that also requests another identity, as programs may
    /// do.
    fn cyrus_logs_in(&self) -> Result<()> {
        let server = self.start(self.program, "cyrus", &[])?;
        let (_, port) = server.address.split_once(':').context("an address has a port")?;
        let script = paths::root().join("interop/sasl/python/cyrus_login.py");
        for words in [&[port][..], &[port, "root"]] {
            let mut python = Command::new("python3");
            let output = run::output(python.arg("-B").arg(&script).args(words))?;
            let is_so = output.lines().any(|line| line == "sasl: client@KAZOOTEST.ORG");
            ensure!(is_so, "Cyrus got another identity, with {words:?}:\n{output}");
        }
        server.stop()
    }

    fn wrong_tickets_are_rejected(&self) -> Result<()> {
        let server = self.start(self.program, "wrong-tickets", &[])?;
        let refused = |title: &str, done: Done, reason: &str| {
            let is_right = !done.success && done.printed.contains(reason);
            ensure!(is_right, "{title}; wanted `{reason}`, got:\n{}", done.printed);
            Ok(())
        };
        let other_service = "zookeeper.server.principal=zkquorum/127.0.0.1";
        let done = self.shell(&server, other_service, &["--sasl-kerberos", "ls", "/"])?;
        refused("a ticket for another service", done, "rejected the Kerberos login")?;
        let anonymous = "zookeeper.server.principal=zookeeper/nowhere";
        let done = self.shell(&server, anonymous, &["--sasl-kerberos", "ls", "/"])?;
        refused("a service that does not exist", done, "not found in Kerberos database")?;
        refused("an expired ticket", self.with_expired_ticket(&server)?, "xpired")?;
        server.stop()?;
        let elsewhere = [("zookeeper.sasl.serverconfig", "Elsewhere")];
        let server = self.start(self.program, "elsewhere", &elsewhere)?;
        self.kinit(&[])?;
        let theirs = "zookeeper.server.principal=zookeeper/elsewhere";
        let done = self.shell(&server, theirs, &["--sasl-kerberos", "ls", "/"])?;
        refused("a ticket under another key", done, "rejected the Kerberos login")?;
        server.stop()?;
        if self.program != Program::Herdsman {
            // If no rule applies to a client, Apache's server accepts it under the name that it requests.
            return Ok(());
        }
        let anonymous = [("zookeeper.security.auth_to_local", "RULE:[1:$1](anonymous)")];
        let server = self.start(self.program, "no-rule", &anonymous)?;
        let done = self.shell(&server, "", &["--sasl-kerberos", "ls", "/"])?;
        refused("a client without a rule", done, "rejected the Kerberos login")?;
        let log = server.log()?;
        ensure!(log.contains("no rule of security.auth_to_local applies to client@"), "{log}");
        server.stop()
    }

    /// Gets a ticket for `client` in the default place.
    fn kinit(&self, words: &[&str]) -> Result<()> {
        let mut kinit = Command::new("kinit");
        kinit.args(words).arg("-kt").arg(self.realm.join("client.keytab")).arg("client");
        run::output(&mut kinit).map(drop)
    }

    /// Returns what the shell did with a ticket of one second after it had expired.
    fn with_expired_ticket(&self, server: &Server) -> Result<Done> {
        self.kinit(&["-l", "1s"])?;
        let deadline = Instant::now() + EXPIRY_MAX;
        loop {
            let done = self.shell(server, "", &["--sasl-kerberos", "ls", "/"])?;
            if !done.success {
                return Ok(done);
            }
            ensure!(Instant::now() < deadline, "a ticket of one second does not expire");
            std::thread::sleep(POLL);
        }
    }
}

/// The address with the host name, which is part of the server's principal.
fn by_name(server: &Server) -> String {
    server.address.replace("127.0.0.1", "localhost")
}
