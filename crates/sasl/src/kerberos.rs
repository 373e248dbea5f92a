//! Kerberos names and how they appear in ACLs. In: a principal's name and the rules, as text. Out: a short
//! name, or why there is none. Apache: `KerberosName`.

mod name;
mod replacement;
mod rules;

pub use name::{BadName, PrincipalName};
pub use rules::{Appended, BadRules, ClientNames, NameRules, NoRule};
