//! Parsing of lines.

use super::*;
use crate::words;

fn parsed(line: &str) -> Result<Parsed, Failure> {
    parse(&words::split(line).expect("the line can be split"))
}

#[track_caller]
fn check(line: &str, debug: &str) {
    match parsed(line) {
        Ok(Parsed::Command(command)) => assert_eq!(format!("{command:?}"), debug, "{line}"),
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn flags_can_be_anywhere_and_combined() {
    let expected = "Ls(Ls { stat: true, watch: true, recursive: false, path: \"/a\", \
                    deprecated_watch: None })";
    for line in ["ls -s -w /a", "ls -sw /a", "ls /a -s -w", "ls -w /a -s", "LS -s -w /a"] {
        check(line, expected);
    }
}

/// Every command and flag of zkCli 3.9, in zkCli's own spelling.
#[test]
fn all_of_zkcli_is_accepted() {
    let lines = "
        addauth digest bob:secret
        addauth sasl
        addWatch /a
        addWatch -m PERSISTENT /a
        addWatch -m persistent_recursive /a
        close
        config
        config -c -w -s
        connect
        connect localhost:2181
        create /a
        create -s -e /a data
        create -c /a data world:anyone:r
        create -t 1000 -s /a
        delete -v 3 /a
        delete /a
        deleteall /a
        deleteall /a -b 10
        delquota /a
        delquota -n /a
        delquota -b /a
        delquota -N /a
        delquota -B /a
        exit
        get -s -w -b /a
        get -x /a
        getAcl -s /a
        getAllChildrenNumber /a
        getEphemerals
        getEphemerals /a
        help
        history
        listquota /a
        ls -s -w -R /a
        printwatches
        printwatches on
        printwatches off
        quit
        reconfig -s -v 100000001 -add server.4=a:1:2;3 -remove 1,2
        reconfig -add server.4=a:1:2;3 -add server.5=a:1:2;3
        reconfig -file members.cfg
        reconfig -members server.1=a:1:2;3,server.2=b:1:2;3
        redo 1
        removewatches /a -c -l
        removewatches /a -d
        removewatches /a -p
        removewatches /a -r
        removewatches /a -a
        set /a data -s -v 3
        set /a ZGF0YQ== -b
        set -v -1 /a data
        setAcl -s -v 1 -R /a world:anyone:r
        setquota -n 1 /a
        setquota -b 1 /a
        setquota -N 1 /a
        setquota -B 1 /a
        stat -w /a
        sync /a
        version
        whoami";
    for line in lines.trim().lines().map(str::trim) {
        assert!(matches!(parsed(line), Ok(Parsed::Command(_))), "{line}: {:?}", parsed(line));
    }
}

#[test]
fn long_flags_may_have_one_dash() {
    let one = "Reconfig(Reconfig { stat: false, version: Some(4294967297), file: None, members: \
               None, add: [\"server.4=a:1:2;3\"], remove: [1, 2] })";
    check("reconfig -v 100000001 -add server.4=a:1:2;3 -remove 1,2", one);
    check("reconfig -v 100000001 --add server.4=a:1:2;3 --remove 1,2", one);
}

#[test]
fn data_may_look_like_a_flag() {
    let set = |data: &str| {
        format!(
            "Set(Set {{ stat: false, version: None, base64: false, path: \"/a\", data: {data:?}, \
             deprecated_version: None }})"
        )
    };
    check("set /a -5", &set("-5"));
    check("set /a -- -s", &set("-s"));
    check("set /a 'b c'", &set("b c"));
    check("set /a ''", &set(""));
}

#[test]
fn secrets_are_not_shown() {
    check("addauth digest bob:secret", "AddAuth(AddAuth { scheme: \"digest\", .. })");
}

#[test]
fn mistakes_take_one_line() {
    for line in ["ls", "ls -z /", "nonsense", "create -c -s /a", "redo x", "set /a", "ls a b c d"] {
        let failure = parsed(line).expect_err(line);
        assert_eq!(failure.exit_code(), 2, "{line}");
        assert!(!failure.to_string().contains('\n'), "{failure}");
    }
}

#[test]
fn every_command_has_a_description_and_help() {
    for command in description().get_subcommands() {
        let name = command.get_name();
        assert!(command.get_about().is_some(), "{name}");
        for argument in command.get_arguments().filter(|argument| usage::is_shown(argument)) {
            assert!(argument.get_help().is_some(), "{name} {}", argument.get_id());
        }
        let asked = parse(&[name.to_owned(), "--help".to_owned()]);
        assert!(matches!(asked, Ok(Parsed::Help(_))), "{name}");
    }
}

#[test]
fn the_description_is_sound() {
    command().debug_assert();
}
