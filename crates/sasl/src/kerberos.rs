//! Names in Kerberos, and what they are called in ACLs. In: a principal's name and rules as text. Out: a
//! shorter name, or why there is none. Apache: `KerberosName`.

mod name;
mod replacement;
mod rules;

pub use name::{BadName, PrincipalName};
pub use rules::{Appended, BadRules, ClientNames, NameRules, NoRule};
