//! ACLs as text: `scheme:id:perms`, several separated by commas. Apache: `AclParser`, which skips
//! entries that it cannot read and uses the rest; here that is an error, because no user intends an
//! ACL with entries missing.

use herdsman_client::{Acl, Id, Perms};
use serde_json::{Value, json};

use crate::failure::Failure;

const LETTERS: [(char, Perms); 5] = [
    ('c', Perms::CREATE),
    ('d', Perms::DELETE),
    ('r', Perms::READ),
    ('w', Perms::WRITE),
    ('a', Perms::ADMIN),
];

/// Reads `world:anyone:r,digest:bob:hash=:cdrwa`.
pub(crate) fn parse_acl(text: &str) -> Result<Vec<Acl>, Failure> {
    text.split(',').map(parse_entry).collect()
}

fn parse_entry(text: &str) -> Result<Acl, Failure> {
    let parts = text.split_once(':').and_then(|(scheme, rest)| {
        // The id of a digest has a colon in it.
        rest.rsplit_once(':').map(|(id, perms)| (scheme, id, perms))
    });
    let Some((scheme, id, letters)) = parts.filter(|(scheme, ..)| !scheme.is_empty()) else {
        let text = format!("{text:?} does not have the form scheme:id:perm");
        return Err(Failure::usage(text));
    };
    Ok(Acl { perms: parse_perms(letters)?, id: Id::new(scheme, id) })
}

fn parse_perms(letters: &str) -> Result<Perms, Failure> {
    let mut perms = Perms(0);
    for letter in letters.chars() {
        let Some((_, bit)) = LETTERS.iter().find(|(known, _)| *known == letter) else {
            let text = format!(
                "unknown permission {letter:?} in {letters:?}; expected some of c(reate), \
                 d(elete), r(ead), w(rite), a(dmin)"
            );
            return Err(Failure::usage(text));
        };
        perms = perms.union(*bit);
    }
    match perms {
        Perms(0) => Err(Failure::usage("an ACL entry needs permissions, some of cdrwa")),
        perms => Ok(perms),
    }
}

/// `cdrwa`, without those that are missing.
fn letters_of(perms: Perms) -> String {
    let granted = LETTERS.iter().filter(|(_, bit)| perms.intersects(*bit));
    granted.map(|(letter, _)| *letter).collect()
}

/// One line per entry, as zkCli prints them.
pub(crate) fn acl_lines(acl: &[Acl]) -> Vec<String> {
    let line =
        |Acl { perms, id }: &Acl| format!("'{},'{}\n: {}", id.scheme, id.id, letters_of(*perms));
    acl.iter().map(line).collect()
}

pub(crate) fn acl_json(acl: &[Acl]) -> Value {
    let entry = |Acl { perms, id }: &Acl| json!({"scheme": id.scheme, "id": id.id, "perms": letters_of(*perms)});
    acl.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acls_are_read_as_zkcli_writes_them() {
        let acl = parse_acl("world:anyone:r,digest:bob:x+y=:cdrwa").expect("it is valid");
        assert_eq!(acl[0], Acl::world(Perms::READ));
        assert_eq!(acl[1], Acl { perms: Perms::ALL, id: Id::new("digest", "bob:x+y=") });
        assert_eq!(acl_lines(&acl)[1], "'digest,'bob:x+y=\n: cdrwa");
        assert_eq!(acl_json(&acl)[0]["perms"], "r");
        let auth = parse_acl("auth::cdrwa").expect("the id may be empty");
        assert_eq!(auth[0].id, Id::new("auth", ""));
    }

    #[test]
    fn invalid_acls_are_rejected() {
        for (text, expected) in [
            ("", "\"\" does not have the form scheme:id:perm"),
            ("world:anyone", "\"world:anyone\" does not have the form scheme:id:perm"),
            ("world:anyone:r,", "\"\" does not have the form scheme:id:perm"),
            (
                "world:anyone:rx",
                "unknown permission 'x' in \"rx\"; expected some of c(reate), d(elete), r(ead), \
                 w(rite), a(dmin)",
            ),
            ("world:anyone:", "an ACL entry needs permissions, some of cdrwa"),
        ] {
            let failure = parse_acl(text).expect_err(text);
            assert_eq!(failure.to_string(), expected);
            assert_eq!(failure.exit_code(), 2);
        }
    }
}
