//! The usage line of a command, made from its description.

use clap::{Arg, ArgAction, Command};

use crate::commands::description;

/// Finds a command by its name or alias, ignoring case.
pub(crate) fn find(name: &str) -> Option<&'static Command> {
    let exact = description().get_subcommands().find(|command| is_called(command, name));
    exact.or_else(|| {
        description()
            .get_subcommands()
            .find(|command| command.get_name().eq_ignore_ascii_case(name))
    })
}

fn is_called(command: &Command, name: &str) -> bool {
    command.get_name() == name || command.get_all_aliases().any(|alias| alias == name)
}

/// The usage line, such as `ls [-s] [-w] [-R] path`.
pub(crate) fn of(command: &Command) -> String {
    let arguments = arguments(command);
    std::iter::once(command.get_name().to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// The whole help of a command: usage, arguments, flags and examples.
pub(crate) fn help(command: &Command) -> String {
    let usage = of(command);
    command.clone().override_usage(usage).render_help().to_string()
}

/// The parts of the usage after the command's name, flags first.
pub(crate) fn arguments(command: &Command) -> Vec<String> {
    let (positionals, flags): (Vec<_>, Vec<_>) =
        command.get_arguments().filter(|arg| is_shown(arg)).partition(|arg| arg.is_positional());
    flags.into_iter().chain(positionals).map(shown).collect()
}

pub(crate) fn is_shown(argument: &Arg) -> bool {
    !argument.is_hide_set()
        && !matches!(
            argument.get_action(),
            ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong
        )
}

fn shown(argument: &Arg) -> String {
    let value = argument
        .get_value_names()
        .and_then(|names| names.first())
        .map_or_else(|| argument.get_id().to_string(), ToString::to_string)
        .to_lowercase();
    let text = match (argument.is_positional(), argument.get_action().takes_values()) {
        (true, _) => value,
        (false, true) => format!("{} {value}", flag(argument)),
        (false, false) => flag(argument),
    };
    match argument.is_required_set() {
        true => text,
        false => format!("[{text}]"),
    }
}

/// The flag as users type it.
pub(crate) fn flag(argument: &Arg) -> String {
    match (argument.get_short(), argument.get_long()) {
        (Some(short), _) => format!("-{short}"),
        (None, Some(long)) => format!("--{long}"),
        (None, None) => argument.get_id().to_string(),
    }
}
