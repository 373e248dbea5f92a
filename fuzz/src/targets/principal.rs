//! Names of Kerberos principals, and the rules that map them to users.
//!
//! In: rules, a line end, and a name.

use herdsman_sasl::kerberos::{NameRules, PrincipalName};

/// The local realm.
const REALM: &str = "EXAMPLE.COM";

/// In: rules and a name.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (rules, name) = text.rsplit_once('\n').unwrap_or(("DEFAULT", &text));
    let Ok(principal) = PrincipalName::parse(name) else {
        return;
    };
    let again = PrincipalName::parse(&principal.to_string());
    assert_eq!(again.as_ref(), Ok(&principal), "a name is read as it is written");
    if let Ok(rules) = NameRules::parse(rules) {
        _ = rules.short_name(&principal, REALM);
    }
}
