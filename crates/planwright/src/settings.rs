//! Settings: flag, then `PLANWRIGHT_*`, then the user's file, then the default. Each value knows
//! where it was said; what a repository says of its own comes between the two ([`crate::wishes`]).
//! The only place that reads the environment.

use std::path::{Path, PathBuf};

use plan::ledger::GlobalBudget;
use plan::{Money, Profile, QualifiedName, Span};
use sandbox::GitEnv;
use store::PostgresStore;

use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::file_reader;
use crate::home;
use crate::limits::{self, LimitOverrides};
use crate::yaml;

/// The keys of the user's file.
pub const SETTING_KEYS: [SettingKey; 14] = [
    SettingKey::Store,
    SettingKey::Actor,
    SettingKey::Profile,
    SettingKey::Notify,
    SettingKey::LimitAttempts,
    SettingKey::LimitTimeout,
    SettingKey::LimitCost,
    SettingKey::LimitTokens,
    SettingKey::LimitTime,
    SettingKey::BudgetCost,
    SettingKey::BudgetTokens,
    SettingKey::SandboxReadable,
    SettingKey::SandboxWritable,
    SettingKey::SandboxUnconfined,
];

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingKey {
    /// Where plans are kept.
    Store,
    /// Who works when neither the action nor a flag says so.
    Actor,
    /// Where plans stop and ask when neither the action nor a flag says so.
    Profile,
    /// What is run when a plan needs a person, failed or landed.
    Notify,
    /// How often a phase of a new plan is tried.
    LimitAttempts,
    /// How long one run of a new plan may take.
    LimitTimeout,
    /// How much a new plan may cost.
    LimitCost,
    /// How many tokens a new plan may use.
    LimitTokens,
    /// How long all runs of a new plan may take together.
    LimitTime,
    /// How much all plans together may cost.
    BudgetCost,
    /// How many tokens all plans together may use.
    BudgetTokens,
    /// What set-up commands and rules may read besides tools and caches: paths, separated by commas.
    SandboxReadable,
    /// What set-up commands and rules may write besides their checkout: paths, separated by commas.
    SandboxWritable,
    /// Repositories whose set-up command is not confined: paths, separated by commas.
    SandboxUnconfined,
}

impl SettingKey {
    /// As it is typed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Actor => "actor",
            Self::Profile => "profile",
            Self::Notify => "notify.command",
            Self::LimitAttempts => "limits.attempts",
            Self::LimitTimeout => "limits.timeout",
            Self::LimitCost => "limits.cost",
            Self::LimitTokens => "limits.tokens",
            Self::LimitTime => "limits.time",
            Self::BudgetCost => "budget.cost",
            Self::BudgetTokens => "budget.tokens",
            Self::SandboxReadable => "sandbox.readable",
            Self::SandboxWritable => "sandbox.writable",
            Self::SandboxUnconfined => "sandbox.unconfined",
        }
    }

    /// The variable that overrides the user's file.
    pub fn variable_name(self) -> &'static str {
        match self {
            Self::Store => "PLANWRIGHT_STORE",
            Self::Actor => "PLANWRIGHT_ACTOR",
            Self::Profile => "PLANWRIGHT_PROFILE",
            Self::Notify => "PLANWRIGHT_NOTIFY_COMMAND",
            Self::LimitAttempts => "PLANWRIGHT_LIMITS_ATTEMPTS",
            Self::LimitTimeout => "PLANWRIGHT_LIMITS_TIMEOUT",
            Self::LimitCost => "PLANWRIGHT_LIMITS_COST",
            Self::LimitTokens => "PLANWRIGHT_LIMITS_TOKENS",
            Self::LimitTime => "PLANWRIGHT_LIMITS_TIME",
            Self::BudgetCost => "PLANWRIGHT_BUDGET_COST",
            Self::BudgetTokens => "PLANWRIGHT_BUDGET_TOKENS",
            Self::SandboxReadable => "PLANWRIGHT_SANDBOX_READABLE",
            Self::SandboxWritable => "PLANWRIGHT_SANDBOX_WRITABLE",
            Self::SandboxUnconfined => "PLANWRIGHT_SANDBOX_UNCONFINED",
        }
    }

    /// Is this a value it can have?
    pub fn check_value(self, value: &str) -> Result<(), CommandError> {
        match self {
            Self::Store => StoreAddress::parse(value).map(drop),
            Self::Actor => value
                .parse::<QualifiedName>()
                .map(drop)
                .map_err(|error| CommandError::usage(error.to_string())),
            Self::Profile => value
                .parse::<Profile>()
                .map(drop)
                .map_err(|error| CommandError::usage(error.to_string())),
            Self::Notify if value.contains('\0') => {
                Err(CommandError::usage("A command has no NUL in it."))
            }
            Self::Notify => Ok(()),
            Self::LimitAttempts => limits::parse_attempts(value)
                .map(drop)
                .map_err(CommandError::usage),
            Self::LimitTimeout | Self::LimitTime => value
                .parse::<Span>()
                .map(drop)
                .map_err(|error| CommandError::usage(error.to_string())),
            Self::LimitCost | Self::BudgetCost => value
                .parse::<Money>()
                .map(drop)
                .map_err(|error| CommandError::usage(error.to_string())),
            Self::LimitTokens | Self::BudgetTokens => limits::parse_tokens(value)
                .map(drop)
                .map_err(CommandError::usage),
            Self::SandboxReadable | Self::SandboxWritable | Self::SandboxUnconfined => {
                parse_paths(value).map(drop).map_err(CommandError::usage)
            }
        }
    }

    /// The key of this name.
    pub fn parse(name: &str) -> Result<Self, CommandError> {
        SETTING_KEYS
            .into_iter()
            .find(|key| key.as_str() == name)
            .ok_or_else(|| {
                let known: Vec<&str> = SETTING_KEYS.iter().map(|key| key.as_str()).collect();
                CommandError::usage(format!(
                    "`{name}` is no setting; there are {}.",
                    known.join(", ")
                ))
            })
    }
}

/// Where a value was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingOrigin {
    /// By a flag.
    Flag,
    /// By this variable.
    Environment(&'static str),
    /// In this file.
    File(PathBuf),
    /// Nowhere.
    Default,
}

impl std::fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flag => f.write_str("--store"),
            Self::Environment(variable) => f.write_str(variable),
            Self::File(path) => f.write_str(&home::display_path(path)),
            Self::Default => f.write_str("default"),
        }
    }
}

/// Where plans' settings are said. A repository's own file comes between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingLayer {
    /// By variables.
    Environment,
    /// In the user's file.
    File,
}

/// What was said about new plans, in one place.
#[derive(Debug, Clone, Default)]
pub struct PlanDefaults {
    /// Who works.
    pub actor: Option<QualifiedName>,
    /// Where they stop and ask.
    pub profile: Option<Profile>,
    /// What they may use.
    pub limits: LimitOverrides,
}

/// A value and where it was said.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Which.
    pub key: SettingKey,
    /// Its value, if it has one.
    pub value: Option<String>,
    /// Where it was said.
    pub origin: SettingOrigin,
}

/// What became of a setting that was to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingRemoval {
    /// It is gone.
    Removed,
    /// The file did not have it.
    NotPresent,
}

/// All settings of one call.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where Planwright keeps its things.
    pub home: PathBuf,
    values: Vec<Setting>,
}

impl Settings {
    /// Gathers what flags, environment and the user's file say.
    pub fn load(store_flag: Option<&str>) -> Result<Self, CommandError> {
        let home = match read_variable("PLANWRIGHT_HOME")? {
            Some(home) => PathBuf::from(home),
            None => home::default_home()?,
        };
        let file = home.join("config.yaml");
        let written = read_settings_file(&file)?;
        let mut values = Vec::new();
        for key in SETTING_KEYS {
            let flag = store_flag
                .filter(|_| key == SettingKey::Store)
                .map(str::to_owned);
            let in_file = written
                .iter()
                .find(|(name, _)| name == key.as_str())
                .map(|(_, value)| value.clone());
            let (value, origin) = if let Some(value) = flag {
                (Some(value), SettingOrigin::Flag)
            } else if let Some(value) = read_variable(key.variable_name())? {
                (Some(value), SettingOrigin::Environment(key.variable_name()))
            } else if let Some(value) = in_file {
                (Some(value), SettingOrigin::File(file.clone()))
            } else {
                (default_value(key, &home), SettingOrigin::Default)
            };
            if let Some(value) = &value {
                key.check_value(value).map_err(|error| CommandError {
                    message: match origin {
                        SettingOrigin::Flag => format!("{origin}: {}", error.message),
                        _ => format!("{} (from {origin}): {}", key.as_str(), error.message),
                    },
                    ..error
                })?;
            }
            values.push(Setting { key, value, origin });
        }
        Ok(Self { home, values })
    }

    /// All settings.
    pub fn all(&self) -> &[Setting] {
        &self.values
    }

    /// One setting.
    pub fn get(&self, key: SettingKey) -> &Setting {
        self.values
            .iter()
            .find(|setting| setting.key == key)
            .expect("BUG: every key was gathered")
    }

    /// Where plans are kept.
    pub fn store_address(&self) -> Result<StoreAddress, CommandError> {
        StoreAddress::parse(
            self.get(SettingKey::Store)
                .value
                .as_deref()
                .unwrap_or_default(),
        )
    }

    /// The profile the user chose, if they did.
    pub fn chosen_profile(&self) -> Option<Profile> {
        let layers = [SettingLayer::Environment, SettingLayer::File].into_iter();
        layers
            .filter_map(|layer| self.plan_defaults(layer).profile)
            .next()
    }

    /// What is said about new plans, as far as it is said there.
    pub fn plan_defaults(&self, layer: SettingLayer) -> PlanDefaults {
        let given = |key| {
            let setting = self.get(key);
            let here = match setting.origin {
                SettingOrigin::Environment(_) => layer == SettingLayer::Environment,
                SettingOrigin::File(_) => layer == SettingLayer::File,
                SettingOrigin::Flag | SettingOrigin::Default => false,
            };
            setting.value.as_deref().filter(|_| here)
        };
        PlanDefaults {
            actor: given(SettingKey::Actor).and_then(|value| value.parse().ok()),
            profile: given(SettingKey::Profile).and_then(|value| value.parse().ok()),
            limits: LimitOverrides {
                attempts: given(SettingKey::LimitAttempts)
                    .and_then(|value| limits::parse_attempts(value).ok()),
                timeout: given(SettingKey::LimitTimeout).and_then(|value| value.parse().ok()),
                cost: given(SettingKey::LimitCost).and_then(|value| value.parse().ok()),
                tokens: given(SettingKey::LimitTokens)
                    .and_then(|value| limits::parse_tokens(value).ok()),
                time: given(SettingKey::LimitTime).and_then(|value| value.parse().ok()),
            },
        }
    }

    /// What all plans together may use.
    pub fn budget(&self) -> GlobalBudget {
        let given = |key| self.get(key).value.as_deref();
        limits::parse_budget(
            given(SettingKey::BudgetCost),
            given(SettingKey::BudgetTokens),
        )
    }

    /// What set-up commands and rules may write besides their checkout, as it is written.
    pub fn writable_paths(&self) -> Vec<String> {
        self.listed_paths(SettingKey::SandboxWritable)
    }

    /// What they may read besides tools and caches.
    pub fn readable_paths(&self) -> Vec<String> {
        self.listed_paths(SettingKey::SandboxReadable)
    }

    fn listed_paths(&self, key: SettingKey) -> Vec<String> {
        let given = self.get(key).value.as_deref();
        given
            .and_then(|value| parse_paths(value).ok())
            .unwrap_or_default()
    }

    /// Repositories whose set-up command is not confined.
    pub fn unconfined_repositories(&self, user_home: Option<&Path>) -> Vec<PathBuf> {
        let expanded = self.listed_paths(SettingKey::SandboxUnconfined).into_iter();
        let expanded = expanded.filter_map(|path| match path.strip_prefix("~/") {
            Some(below) => Some(user_home?.join(below)),
            None => Some(PathBuf::from(path)),
        });
        expanded.collect()
    }

    /// The user's file.
    pub fn file_path(&self) -> PathBuf {
        self.home.join("config.yaml")
    }

    /// Writes one setting into the user's file, which is replaced whole.
    pub fn write_setting(&self, key: SettingKey, value: &str) -> Result<(), CommandError> {
        key.check_value(value)?;
        let mut written = read_settings_file(&self.file_path())?;
        written.retain(|(name, _)| name != key.as_str());
        written.push((key.as_str().to_owned(), value.to_owned()));
        self.write_file(written)
    }

    /// Takes one setting out of the user's file.
    pub fn remove_setting(&self, key: SettingKey) -> Result<SettingRemoval, CommandError> {
        let mut written = read_settings_file(&self.file_path())?;
        let before = written.len();
        written.retain(|(name, _)| name != key.as_str());
        if written.len() == before {
            return Ok(SettingRemoval::NotPresent);
        }
        self.write_file(written)?;
        Ok(SettingRemoval::Removed)
    }

    fn write_file(&self, mut written: Vec<(String, String)>) -> Result<(), CommandError> {
        let path = self.file_path();
        written.sort();
        let text: String = written
            .iter()
            .map(|(name, value)| format!("{name}: {}\n", serde_json::json!(value)))
            .collect();
        let failed = |error: std::io::Error| {
            CommandError::new(
                CommandExit::Error,
                format!("{} cannot be written: {error}", home::display_path(&path)),
            )
        };
        home::make_private_directory(&self.home).map_err(failed)?;
        let new = path.with_extension("yaml.new");
        home::write_private_file(&new, &text).map_err(failed)?;
        std::fs::rename(&new, &path).map_err(failed)
    }
}

/// What child processes get of the environment.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door everybody else is sent to"
)]
pub fn read_git_env() -> GitEnv {
    GitEnv {
        program: "git".into(),
        path: std::env::var_os("PATH"),
        home: std::env::var_os("HOME"),
        config_home: std::env::var_os("XDG_CONFIG_HOME"),
        timeout: sandbox::GIT_TIMEOUT,
    }
}

/// The whole environment, of which actors get what is theirs.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door everybody else is sent to"
)]
pub fn read_environment() -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    std::env::vars_os().collect()
}

/// Was this program started by an actor? Each of their runs has a key, and is told it.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door everybody else is sent to"
)]
pub fn is_inside_run() -> bool {
    std::env::var_os("PLANWRIGHT_RUN_KEY").is_some()
}

/// The person's editor, if they said which.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door everybody else is sent to"
)]
pub fn find_editor() -> Option<std::ffi::OsString> {
    let mut given = ["VISUAL", "EDITOR"]
        .into_iter()
        .filter_map(std::env::var_os);
    given.find(|editor| !editor.is_empty())
}

/// The person's shell.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door everybody else is sent to"
)]
pub fn user_shell() -> std::ffi::OsString {
    std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into())
}

/// What a person's shell in a sandbox is given besides what is theirs: git there takes nothing for a repository that
/// is only a directory which looks like a bare one. Added to what their own environment tells git.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door everybody else is sent to"
)]
pub fn shell_git_variables() -> Vec<(String, String)> {
    let count = std::env::var("GIT_CONFIG_COUNT").ok();
    let told = count
        .and_then(|count| count.parse::<u32>().ok())
        .unwrap_or(0);
    let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    vec![
        named(&format!("GIT_CONFIG_KEY_{told}"), "safe.bareRepository"),
        named(&format!("GIT_CONFIG_VALUE_{told}"), "explicit"),
        named("GIT_CONFIG_COUNT", &(told + 1).to_string()),
    ]
}

/// What an address looks like.
const ADDRESS_HINT: &str = "Use sqlite:PATH or postgres://USER@HOST/DATABASE";

/// A place plans can be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreAddress {
    /// A file.
    Sqlite(PathBuf),
    /// A server.
    Postgres(String),
}

impl StoreAddress {
    /// Reads `sqlite:PATH` or `postgres://…`.
    pub fn parse(text: &str) -> Result<Self, CommandError> {
        if let Some(path) = text.strip_prefix("sqlite:") {
            if path.is_empty() || path == ":memory:" {
                return Err(CommandError::usage("`sqlite:` needs the path of a file."));
            }
            return Ok(Self::Sqlite(PathBuf::from(path)));
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return match PostgresStore::check_address(text) {
                Ok(()) => Ok(Self::Postgres(text.to_owned())),
                Err(error) => Err(CommandError::usage(error.to_string()).with_hint(ADDRESS_HINT)),
            };
        }
        if text.starts_with("memory") {
            return Err(CommandError::usage(
                "A memory store ends with the command, and what it kept is lost with it.",
            )
            .with_hint(
                "Use --store sqlite:PATH; the memory store is for programs that embed Planwright.",
            ));
        }
        Err(CommandError::usage(format!(
            "`{}` is no store.",
            text.chars().take(80).collect::<String>()
        ))
        .with_hint(ADDRESS_HINT))
    }
}

/// Paths separated by commas, each from the root or the home directory.
fn parse_paths(value: &str) -> Result<Vec<String>, String> {
    let mut paths = Vec::new();
    for path in value
        .split(',')
        .map(str::trim)
        .filter(|path| !path.is_empty())
    {
        let is_whole = path.starts_with('/') || path.starts_with("~/");
        if !is_whole || path.contains('\0') {
            return Err(format!(
                "`{path}` is not a path that begins with `/` or `~/`."
            ));
        }
        if matches!(path.trim_end_matches('/'), "" | "~") {
            return Err(format!("`{path}` is everything; name what is needed."));
        }
        paths.push(path.to_owned());
    }
    if paths.is_empty() {
        return Err("There is no path in it.".to_owned());
    }
    Ok(paths)
}

fn default_value(key: SettingKey, home: &Path) -> Option<String> {
    match key {
        SettingKey::Store => Some(format!("sqlite:{}", home.join("planwright.db").display())),
        SettingKey::Actor
        | SettingKey::Notify
        | SettingKey::LimitAttempts
        | SettingKey::LimitTimeout
        | SettingKey::LimitCost
        | SettingKey::LimitTokens
        | SettingKey::LimitTime
        | SettingKey::BudgetCost
        | SettingKey::BudgetTokens
        | SettingKey::SandboxReadable
        | SettingKey::SandboxWritable
        | SettingKey::SandboxUnconfined => None,
        SettingKey::Profile => Some(Profile::default().to_string()),
    }
}

fn read_settings_file(path: &Path) -> Result<Vec<(String, String)>, CommandError> {
    let source = match file_reader::read_text(path) {
        Ok(source) => source,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(CommandError::new(
                CommandExit::Error,
                format!("{} cannot be read: {error}", home::display_path(path)),
            ));
        }
    };
    let known: Vec<&str> = SETTING_KEYS.iter().map(|key| key.as_str()).collect();
    let entries = yaml::parse_settings(&source, &home::display_path(path), &known)
        .map_err(|problem| CommandError::malformed_file(problem, &source))?;
    Ok(entries
        .into_iter()
        .map(|(name, value, _)| (name, value))
        .collect())
}

/// A variable; set but empty counts as not set.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door everybody else is sent to"
)]
fn read_variable(name: &str) -> Result<Option<String>, CommandError> {
    match std::env::var(name) {
        Ok(value) if value.is_empty() => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(CommandError::usage(format!("{name} is not valid UTF-8.")))
        }
    }
}
