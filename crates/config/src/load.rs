//! Reads the files, flags and arguments, fills a draft according to the table, and passes it to the
//! rules. Each given setting is visited once, in the order of the file and then of the flags.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use herdsman_properties::{Entry, Properties};
use herdsman_secret::Secret;

use super::draft::Draft;
use super::error::{ConfigError, Location, Warning};
use super::flags::SystemProperties;
use super::setting::{Initial, Setting, Shape, Source, Status, Store};
use super::settings;
use super::types::Given;
use super::{Loaded, Membership, encoding, ensemble, rules};

/// The files of a configuration; tests have some that exist only in memory.
#[derive(Clone, Copy)]
pub(super) struct Files<'a> {
    /// Reads a file.
    pub(super) read: &'a dyn Fn(&Path) -> io::Result<Vec<u8>>,
    /// Whether a directory exists.
    pub(super) has_directory: &'a dyn Fn(&Path) -> bool,
}

/// A configuration that is being read: the draft, where each setting was given, and the warnings.
pub(super) struct Loading {
    pub(super) draft: Draft,
    pub(super) warnings: Vec<Warning>,
    places: BTreeMap<String, Location>,
    base: Location,
}

impl Loading {
    /// Starts with the defaults. `base` is the location reported for errors that belong to no line.
    fn new(base: Location) -> Self {
        let mut draft = Draft::default();
        for setting in settings::all() {
            if let Initial::Is(text) = setting.initial {
                let remark = setting.apply(&mut draft, text);
                assert_eq!(remark, Ok(None), "the default of {} is {text:?}", setting.key);
            }
        }
        Self { draft, warnings: Vec::new(), places: BTreeMap::new(), base }
    }

    /// Where a key was set, or where it should have been.
    pub(super) fn place(&self, key: &str) -> Location {
        self.places.get(key).unwrap_or(&self.base).clone()
    }

    pub(super) fn is_set(&self, key: &str) -> bool {
        self.places.contains_key(key)
    }

    pub(super) fn warn(&mut self, place: Location, text: impl Into<String>) {
        self.warnings.push(Warning::new(place, text));
    }

    /// The error for a value of `key` that breaks a rule.
    pub(super) fn broken(&self, key: &str, problem: impl Into<String>) -> ConfigError {
        ConfigError::rule(self.place(key), problem)
    }

    /// Reads one setting. `key` differs from the setting's key where that is a pattern.
    fn take(
        &mut self,
        setting: &Setting,
        key: &str,
        text: &str,
        place: Location,
    ) -> Result<(), ConfigError> {
        let shown = if setting.shape == Shape::Secret { "…" } else { text };
        match setting.apply(&mut self.draft, text) {
            Ok(None) => {}
            Ok(Some(odd)) => self.warn(place.clone(), format!("{key}={shown} {odd}")),
            Err(expected) => {
                let (key, value, expected) =
                    (key.to_owned(), shown.to_owned(), expected.to_owned());
                return Err(ConfigError::Value { place, key, value, expected });
            }
        }
        let silent = match setting.status {
            Status::NotYet => false,
            Status::NotYetUnless(absent) => text.eq_ignore_ascii_case(absent),
            Status::Acted | Status::Ensemble | Status::Ignored(_) => true,
        };
        if !silent {
            self.warn(place.clone(), format!("{key} has no effect yet"));
        }
        if matches!(setting.store, Store::Kept) {
            self.draft.config.given.push(given(key, text, place.clone()));
        }
        self.places.insert(key.to_owned(), place);
        Ok(())
    }

    /// Reads the keys of zoo.cfg, except those about members, which it returns.
    fn take_file(&mut self, path: &Path, file: &Properties) -> Result<Membership, ConfigError> {
        let mut membership = Membership::default();
        for (key, entry) in file.in_file_order() {
            let place = Location::line(path, entry.line);
            if let Some(outcome) = membership.take_line(key, &entry.value) {
                self.warn_of_blanks(key, entry, &place);
                if file.get("dynamicConfigFile").is_some() {
                    let problem = format!("{key} must be in the file that dynamicConfigFile names");
                    return Err(ConfigError::rule(place, problem));
                }
                outcome.map_err(|problem| {
                    ConfigError::rule(place.clone(), format!("{key}={} {problem}", entry.value))
                })?;
                self.places.insert(key.to_owned(), place);
                continue;
            }
            let Some(setting) = settings::by_key(key) else {
                self.warn(place.clone(), unknown_text(key));
                self.draft.config.unknown.push(given(key, &entry.value, place));
                continue;
            };
            if setting.source == Source::Bare {
                let text = format!(
                    "Apache takes {key} only as the flag -D{key}; here it also takes effect in the file"
                );
                self.warn(place.clone(), text);
            }
            self.take(setting, key, &entry.value, place)?;
        }
        Ok(membership)
    }

    /// Apache does not trim white space in member lines.
    pub(super) fn warn_of_blanks(&mut self, key: &str, entry: &Entry, place: &Location) {
        if entry.was_padded || entry.value.contains(char::is_whitespace) {
            let text = format!(
                "{key} has spaces in or after its value; Apache's server refuses most such lines: remove them"
            );
            self.warn(place.clone(), text);
        }
    }

    /// Reads system properties, except those that the file has set.
    fn take_properties(&mut self, properties: &SystemProperties) -> Result<(), ConfigError> {
        for (name, text) in properties.iter() {
            let place = Location::Flag(name.to_owned());
            let Some((setting, key)) = settings::by_property(name) else {
                if let Some(key) = name.strip_prefix("zookeeper.") {
                    self.warn(place.clone(), unknown_flag_text(key));
                    self.draft.config.unknown.push(given(name, text, place));
                }
                continue;
            };
            let outranked = match setting.source {
                Source::Bare => false,
                _ if self.is_set_in_file(key) => true,
                Source::PropertyOrBare => {
                    name == key && properties.get(&format!("zookeeper.{key}")).is_some()
                }
                _ => false,
            };
            if !outranked {
                self.take(setting, key, text, place)?;
            }
        }
        Ok(())
    }

    fn is_set_in_file(&self, key: &str) -> bool {
        matches!(self.places.get(key), Some(Location::Line(..)))
    }
}

pub(super) fn given(key: &str, text: &str, place: Location) -> Given {
    Given { key: key.to_owned(), value: Secret::new(text), place }
}

fn unknown_text(key: &str) -> String {
    let kept = format!("unknown setting {key}; kept as system property zookeeper.{key}");
    let plain = key.strip_prefix("zookeeper.").filter(|plain| settings::by_key(plain).is_some());
    match plain.or_else(|| settings::nearest(key)) {
        Some(meant) => format!("{kept}; did you mean {meant}?"),
        None => kept,
    }
}

fn unknown_flag_text(key: &str) -> String {
    if settings::by_key(key).is_some_and(|setting| setting.source == Source::File) {
        return format!("{key} is read from the configuration file only");
    }
    match settings::nearest(key) {
        Some(meant) => format!("unknown setting; did you mean {meant}?"),
        None => "unknown setting".to_owned(),
    }
}

/// Parses a properties file that was read from `path`.
pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Properties, ConfigError> {
    Properties::parse(bytes)
        .map_err(|bad| ConfigError::rule(Location::line(path, bad.line), bad.to_string()))
}

pub(super) fn read(path: &Path, files: Files<'_>) -> Result<Vec<u8>, ConfigError> {
    (files.read)(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })
}

pub(super) fn from_file(
    path: &Path,
    properties: &SystemProperties,
    files: Files<'_>,
) -> Result<Loaded, ConfigError> {
    let bytes = read(path, files)?;
    let file = parse(path, &bytes)?;
    let mut loading = Loading::new(Location::File(path.to_owned()));
    for (key, line) in &file.overridden {
        loading.warn(
            Location::line(path, *line),
            format!("{key} is set again further down; the last value applies"),
        );
    }
    if file.has_byte_order_mark {
        let text = "begins with a byte order mark, which Apache's server takes for a part of the first name; \
                    save the file without it";
        loading.warn(Location::line(path, 1), text);
    }
    for line in &file.beyond_ascii {
        loading.warn(Location::line(path, *line), "is read as UTF-8; Apache reads ISO-8859-1");
    }
    let membership = loading.take_file(path, &file)?;
    if !file.beyond_ascii.is_empty() {
        encoding::choose_directories(&mut loading, path, &file, &bytes, files)?;
    }
    loading.take_properties(properties)?;
    rules::finish(&mut loading)?;
    ensemble::decide(&mut loading, membership, path, files)?;
    loading.draft.config.file = Some(path.to_owned());
    Ok(Loaded { config: loading.draft.config, warnings: loading.warnings })
}

pub(super) fn from_args(
    args: &[&str],
    properties: &SystemProperties,
) -> Result<Loaded, ConfigError> {
    const NAMES: [&str; 4] = ["clientPort", "dataDir", "tickTime", "maxClientCnxns"];
    if !(2..=NAMES.len()).contains(&args.len()) {
        let problem = format!(
            "{} arguments; expected a configuration file, or port dataDir [tickTime] [maxClientCnxns]",
            args.len()
        );
        return Err(ConfigError::rule(Location::Arguments, problem));
    }
    let no_limit = ("maxClientCnxns", "0");
    let given = [no_limit].into_iter().chain(NAMES.into_iter().zip(args.iter().copied()));
    standalone(&Location::Arguments, given, properties)
}

pub(super) fn standalone_default(properties: &SystemProperties) -> Result<Loaded, ConfigError> {
    let given = [
        ("clientPort", "2181"),
        ("clientPortAddress", "127.0.0.1"),
        ("dataDir", "./herdsman-data"),
    ];
    standalone(&Location::Defaults, given.into_iter(), properties)
}

fn standalone<'a>(
    place: &Location,
    given: impl Iterator<Item = (&'a str, &'a str)>,
    properties: &SystemProperties,
) -> Result<Loaded, ConfigError> {
    let mut loading = Loading::new(place.clone());
    for (key, text) in given {
        let setting = settings::by_key(key).expect("the table has the positional arguments");
        loading.take(setting, key, text, place.clone())?;
    }
    loading.take_properties(properties)?;
    rules::finish(&mut loading)?;
    Ok(Loaded { config: loading.draft.config, warnings: loading.warnings })
}
