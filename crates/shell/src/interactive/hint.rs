//! Usage hints, shown in grey behind the cursor.

use crate::usage;
use crate::words;

/// The arguments that may still follow, with a space before them if one is missing.
pub(crate) fn usage_hint(line: &str) -> Option<String> {
    let words = words::scan(line);
    let (name, given) = words.split_first()?;
    let command = usage::find(name.text)?;
    let ends_word = line.ends_with(char::is_whitespace);
    if given.is_empty() && !ends_word && command.get_name() != name.text {
        // A different spelling or an alias: show the usage only when the word is complete.
        return None;
    }
    let is_flag = |text: &str| text.len() > 1 && text.starts_with('-');
    let mut positionals = given.iter().filter(|word| !is_flag(word.text)).count();
    let is_given = |part: &str| {
        let flag = part.trim_matches(['[', ']']).split(' ').next().unwrap_or_default();
        given.iter().any(|word| word.text == flag)
    };
    let mut rest = Vec::new();
    for part in usage::arguments(command) {
        let is_positional = !part.trim_start_matches('[').starts_with('-');
        if is_positional && positionals > 0 {
            positionals -= 1;
        } else if is_positional || (!is_given(&part) && positionals == 0) {
            rest.push(part);
        }
    }
    if rest.is_empty() {
        return None;
    }
    let space = if ends_word { "" } else { " " };
    Some(format!("{space}{}", rest.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, hint: Option<&str>) {
        assert_eq!(usage_hint(line).as_deref(), hint, "{line:?}");
    }

    #[test]
    fn the_hint_is_what_may_follow() {
        check("", None);
        check("l", None);
        check("ls", Some(" [-s] [-w] [-R] path"));
        check("ls ", Some("[-s] [-w] [-R] path"));
        check("ls -s ", Some("[-w] [-R] path"));
        check("ls /a", None);
        check("set /a", Some(" data"));
        check("create /a ", Some("[data] [acl]"));
        check("whoami", None);
        check("unknown ", None);
    }
}
