//! JAAS files: what the JDK accepts we accept, with the same result, and what it rejects we reject.

use anyhow::{Result, ensure};
use herdsman_sasl::{ControlFlag, JaasFile, LoginModule, Secret};

use crate::peer::{Peer, to_word};

/// The section that is compared.
const SECTION: &str = "S";

/// Accepted with the same result, or rejected by both.
const FILES: &[&str] = &[
    "",
    "// nothing\n/* at\nall */",
    "T { c required; };",
    "S { };",
    "S { c required; };",
    "S{c required;};",
    "S { a.b.C$D REQUIRED a=b; e.F requisite; g Sufficient; h optional x=y z=\"\"; };",
    "\"S\" { \"c\" \"required\" \"a b\"=\"c d\"; };",
    "S { c required a=b a=c; };",
    "S { c required a=b.c-d_e$f*9; };",
    "S { c required a=ü b=м _c=🐑; };",
    "S { c required a=\"ü м 🐑\"; };",
    "S { c required a=\"x // y /* z */ # '\"; };",
    "S { c required // a comment\n a=b /* another */ ; };",
    "S { c required\r\n a=b;\r\n};\r\n",
    r#"S { c required a="\"\\\n\t\q\'"; };"#,
    r#"S { c required a="\101\60\0601\400\377"; };"#,
    r#"S { c required a="\a\b\f\r\v"; };"#,
    r#"S { c required a="${/}x${/}"; };"#,
    r#"S { c required a="${{alias}}"; };"#,
    r#"S { c required a="${{open"; };"#,
    r#"S { c required a="x${open"; };"#,
    r#"S { c required a="${no.such.property}"; };"#,
    r#"S { c required a="pre${no.such.property}post"; };"#,
    "S { c required a=$b; };",
    "S { c required a=\"$b\" c=\"$\" d=\"}\"; };",
    "S",
    "S {",
    "S { c required; }",
    "S { c required };",
    "S { c required a; };",
    "S { c required a=; };",
    "S { c required a=b }; ",
    "S { c required a b; };",
    "S { c mandatory; };",
    "S { c; };",
    "S { c required; }; S { c required; };",
    "S { c required a=1; };",
    "S { c required a=.b; };",
    "S { c required a=-b; };",
    "S { c required a='b'; };",
    "S { c required a=b@c; };",
    "S { c required a=b:c; };",
    "S { c required a=b,d=e; };",
    "S { c required a=b#c; };",
    "# comment\nS { c required; };",
    "S { # comment\n c required; };",
    "S [ c required; ];",
];

/// Compares all of them.
pub fn check(jdk: &mut Peer) -> Result<()> {
    for file in FILES {
        println!("a file: {file:?}");
        let theirs = jdk.ask("jaas", &[file, SECTION].map(|text| text.as_bytes()))?;
        let ours = read(file);
        ensure!(ours == theirs, "we read {ours}\nthe JDK reads {theirs}");
    }
    Ok(())
}

/// Returns what we read, in the peer's format.
fn read(text: &str) -> String {
    let file = match JaasFile::parse(text) {
        Ok(file) => file,
        Err(error) => {
            println!("    refused: {error}");
            return "refused".to_string();
        }
    };
    match file.section(SECTION) {
        Some(section) if !section.modules.is_empty() => {
            let modules: Vec<_> = section.modules.iter().map(module).collect();
            format!("section {}", modules.join(" "))
        }
        _ => "absent".to_string(),
    }
}

fn module(module: &LoginModule) -> String {
    let flag = match module.control {
        ControlFlag::Required => "required",
        ControlFlag::Requisite => "requisite",
        ControlFlag::Sufficient => "sufficient",
        ControlFlag::Optional => "optional",
    };
    let option = |(name, value): (&String, &Secret)| {
        format!("{}={}", to_word(name.as_bytes()), to_word(value.expose().as_bytes()))
    };
    let options: Vec<_> = module.options.iter().map(option).collect();
    let options = if options.is_empty() { "-".to_string() } else { options.join(",") };
    format!("{} {flag} {options}", to_word(module.class.as_bytes()))
}
