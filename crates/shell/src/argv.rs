//! Converts zkCli's own flags, which have one dash and a long name, to the form that clap reads.
//!
//! In: the arguments of the process. Out: the same with `-server X` as `--servers X` and so on.
//! Only flags before the shell's command are changed: those after it belong to the command.

use std::ffi::OsString;

/// Rewrites zkCli's spellings of the shell's flags: `herdsman shell -server a:2181 -timeout 5000 ls /`
/// becomes `herdsman shell --servers a:2181 --session-timeout 5.000 ls /`. The first argument is the
/// program; arguments of other subcommands than `shell` stay as they are.
#[must_use]
pub fn modernized(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut old = arguments.into_iter();
    let mut new: Vec<OsString> = old.by_ref().take(2).collect();
    if new.get(1).is_none_or(|subcommand| subcommand != "shell") {
        new.extend(old);
        return new;
    }
    while let Some(argument) = old.next() {
        let text = argument.to_string_lossy();
        match text.as_ref() {
            "-server" => push_with_value(&mut new, "--servers", old.next()),
            "-timeout" => {
                let seconds = old.next().map(|ms| seconds_of(&ms));
                push_with_value(&mut new, "--session-timeout", seconds);
            }
            "-client-configuration" => {
                push_with_value(&mut new, "--client-configuration", old.next());
            }
            // We always wait for the connection.
            "-waitforconnection" => {}
            "--" => {
                new.push(argument);
                break;
            }
            flag if takes_value(flag) => {
                new.push(argument);
                new.extend(old.next());
            }
            flag if flag.starts_with('-') => new.push(argument),
            _ => {
                new.push(argument);
                break;
            }
        }
    }
    new.extend(old);
    new
}

fn push_with_value(arguments: &mut Vec<OsString>, flag: &str, value: Option<OsString>) {
    arguments.push(flag.into());
    arguments.extend(value);
}

/// Whether a flag of ours takes the next argument as its value, so that it is not taken for the command.
fn takes_value(flag: &str) -> bool {
    matches!(
        flag,
        "-s" | "--server"
            | "--servers"
            | "--session-timeout"
            | "--connect-timeout"
            | "--auth"
            | "--auth-file"
            | "--color"
            | "--client-configuration"
            | "--tls-trust-store"
            | "--tls-key-store"
            | "--tls-password-file"
            | "--sasl-user"
            | "--sasl-password-file"
            | "--sasl-jaas-file"
    )
}

/// Converts milliseconds to seconds. Leaves anything that is not a number for clap to reject.
fn seconds_of(ms: &OsString) -> OsString {
    match ms.to_str().and_then(|ms| ms.parse::<u32>().ok()) {
        Some(ms) => format!("{}.{:03}", ms / 1000, ms % 1000).into(),
        None => ms.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: &str, new: &str) {
        let rewritten = modernized(old.split(' ').map(OsString::from));
        let rewritten: Vec<_> = rewritten.iter().map(|word| word.to_string_lossy()).collect();
        assert_eq!(rewritten.join(" "), new, "{old}");
    }

    #[test]
    fn the_flags_of_zkcli_are_accepted() {
        check("herdsman shell -server a:1 ls /", "herdsman shell --servers a:1 ls /");
        check("herdsman shell -timeout 2500 ls /", "herdsman shell --session-timeout 2.500 ls /");
        check("herdsman shell -timeout x", "herdsman shell --session-timeout x");
        check("herdsman shell -r -waitforconnection ls /", "herdsman shell -r ls /");
        check(
            "herdsman shell -client-configuration f ls",
            "herdsman shell --client-configuration f ls",
        );
    }

    #[test]
    fn flags_of_commands_and_of_other_subcommands_are_not_changed() {
        check("herdsman recipe -server a", "herdsman recipe -server a");
        check("herdsman shell set -server a", "herdsman shell set -server a");
        check("herdsman shell -s a:1 get -server", "herdsman shell -s a:1 get -server");
        check("herdsman shell --sasl-user a ls -server", "herdsman shell --sasl-user a ls -server");
        check("herdsman shell -- -server", "herdsman shell -- -server");
        check("herdsman", "herdsman");
    }
}
