//! Table tests of rules and names.

use super::*;

const RULES: &str = r"
    RULE:[1:$1@$0](.*@OTHER)s/@.*//
    RULE:[2:$1](admin)s/^.*$/root/
    RULE:[2:$1;$2](.*;field)s/;.*/-in-the-field/
    RULE:[2:$2.$1@$0](b\..*@HILLS)s/^b\.([a-z]+)@.*/$1_of_the_hills/
    DEFAULT";

fn short_name(rules: &str, principal: &str) -> Result<String, NoRule> {
    let rules = NameRules::parse(rules).unwrap();
    rules.short_name(&PrincipalName::parse(principal).unwrap(), "HERD")
}

#[test]
fn the_first_rule_that_applies_decides() {
    for (principal, expected) in [
        ("ann@HERD", "ann"),
        ("zk/a.example@HERD", "zk"),
        ("bob@OTHER", "bob"),
        ("admin/somewhere@HERD", "root"),
        ("admin/somewhere@ANYWHERE", "root"),
        ("dog/field@HERD", "dog-in-the-field"),
        ("goat/b@HILLS", "goat_of_the_hills"),
        // It has no realm, so it is already short.
        ("ann", "ann"),
    ] {
        assert_eq!(short_name(RULES, principal).as_deref(), Ok(expected), "{principal}");
    }
}

#[test]
fn without_a_rule_there_is_no_name() {
    for principal in ["bob@ELSEWHERE", "zk/a@OTHER", "goat/c@HILLS"] {
        let error = short_name(RULES, principal).unwrap_err();
        assert_eq!(error, NoRule::NoneApplies { principal: principal.to_owned() });
    }
    assert!(short_name("", "ann@HERD").is_err());
}

#[test]
fn a_short_name_has_no_separators() {
    let made = |rules, principal| short_name(rules, principal).unwrap_err();
    assert!(matches!(made("RULE:[1:$1@$0]", "ann@HERD"), NoRule::NotSimple { .. }));
    assert!(matches!(made("RULE:[2:$1/$2]", "zk/a@HERD"), NoRule::NotSimple { .. }));
}

#[test]
fn a_pattern_matches_the_whole_text_and_a_change_a_part() {
    assert_eq!(short_name("RULE:[1:$1](an)s/a/b/ RULE:[1:x]", "ann@R").as_deref(), Ok("x"));
    assert_eq!(short_name("RULE:[1:$1](a.*)s/a/b/", "anna@R").as_deref(), Ok("bnna"));
    assert_eq!(short_name("RULE:[1:$1](a.*)s/a/b/g", "anna@R").as_deref(), Ok("bnnb"));
    assert_eq!(short_name("RULE:[1:$1]s/n+/-/", "anna@R").as_deref(), Ok("a-a"));
    assert_eq!(short_name("RULE:[1:$1](a|b)s/a/c/", "a@R").as_deref(), Ok("c"));
}

#[test]
fn rules_need_no_blanks_between_them() {
    assert_eq!(short_name("RULE:[1:$1](x)DEFAULT", "ann@HERD").as_deref(), Ok("ann"));
    assert_eq!(short_name("RULE:[1:$1](x)s/x/y/gDEFAULT", "x@R").as_deref(), Ok("y"));
}

#[test]
fn invalid_rules_are_rejected_with_the_reason() {
    for (text, problem) in [
        ("default", "expected `DEFAULT` or `RULE:[`, at `default`"),
        ("DEFAULT RULE", "expected `DEFAULT` or `RULE:[`, at `RULE`"),
        ("RULE:[1]", "expected `:` after the number of parts, at `1]`"),
        ("RULE:[:$1]", "`` is not a number of parts, at `$1]`"),
        ("RULE:[x:$1]", "`x` is not a number of parts"),
        ("RULE:[1:$1", "expected `]` after the format, at `$1`"),
        ("RULE:[1:$2]", "`$2` in the format is not one of $0 to $1, at `the end`"),
        ("RULE:[1:$]", "`$` in the format is not one of $0 to $1"),
        ("RULE:[1:$1](a", "expected `)` after the pattern"),
        ("RULE:[1:$1](*)", "invalid pattern: "),
        ("RULE:[1:$1](a)s/a", "expected `/` after the text to replace"),
        ("RULE:[1:$1](a)s/a/b", "expected `/` after the replacement"),
        ("RULE:[1:$1](a)s/a/$1/", "the pattern does not have that many groups"),
        ("RULE:[1:$1](a)s/a/b/L", "expected `DEFAULT` or `RULE:[`, at `L`"),
    ] {
        let error = NameRules::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(problem), "{text}: {error}");
    }
}

#[test]
fn host_and_realm_are_appended_unless_removed() {
    use Appended::{Kept, Removed};
    let rules = NameRules::parse("DEFAULT").unwrap();
    for (host, realm, principal, expected) in [
        (Kept, Kept, "ann@HERD", "ann@HERD"),
        (Kept, Kept, "zk/a@HERD", "zk/a@HERD"),
        (Removed, Kept, "zk/a@HERD", "zk@HERD"),
        (Kept, Removed, "zk/a@HERD", "zk/a"),
        (Removed, Removed, "zk/a@HERD", "zk"),
        (Kept, Kept, "ann", "ann"),
    ] {
        let default_realm = "HERD".to_owned();
        let names = ClientNames { rules: rules.clone(), default_realm, host, realm };
        let principal = PrincipalName::parse(principal).unwrap();
        assert_eq!(names.name_of(&principal).as_deref(), Ok(expected), "{principal}");
    }
}
