//! Resolves settings: flag, then `PLANWRIGHT_*` variable, then the user's `config.yaml`, then the default.
//!
//! Each value records its origin. A repository's `planwright.yaml` ranks between variables and the user's
//! file; [`crate::repository_config`] merges it in. Apart from test faults, no other module reads the environment.

use std::path::{Path, PathBuf};

use api::plan_config::{LimitOverrides, PlanDefaults};
use plan::ledger::GlobalBudget;
use plan::{Money, Profile, QualifiedName, Span};
use sandbox::GitEnv;
use store::PostgresStore;

use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::file_reader;
use crate::home;
use crate::limits;
use crate::yaml;

/// All keys of `config.yaml`, in the order they are listed to the user.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingKey {
    /// The store address.
    Store,
    /// The agent of plans whose action and flags name none.
    Actor,
    /// The profile of plans whose action and flags name none.
    Profile,
    /// The command to run when a plan needs a person, fails or lands.
    Notify,
    /// Attempts per phase of a new plan.
    LimitAttempts,
    /// Time limit of one run of a new plan.
    LimitTimeout,
    /// Cost limit of a new plan.
    LimitCost,
    /// Token limit of a new plan.
    LimitTokens,
    /// Time limit of all runs of a new plan together.
    LimitTime,
    /// Cost limit of all plans together.
    BudgetCost,
    /// Token limit of all plans together.
    BudgetTokens,
    /// Comma-separated paths that set-up commands and rules may read, in addition to tools and caches.
    SandboxReadable,
    /// Comma-separated paths that set-up commands and rules may write, in addition to their checkout.
    SandboxWritable,
    /// Comma-separated paths of repositories whose set-up command runs unconfined.
    SandboxUnconfined,
}

impl SettingKey {
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

    /// The environment variable that overrides the user's file.
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

    /// What the setting does, in one line.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::Store => "where plans are kept: sqlite:PATH or postgres://USER@HOST/DATABASE",
            Self::Actor => "agent of new plans",
            Self::Profile => "where new plans stop and ask: manual, supervised, review or auto",
            Self::Notify => "command to run when a plan needs you, fails or lands",
            Self::LimitAttempts => "attempts per phase of a new plan",
            Self::LimitTimeout => "time limit of one run of an agent, such as 20m",
            Self::LimitCost => "cost limit of a new plan in US dollars",
            Self::LimitTokens => "token limit of a new plan",
            Self::LimitTime => "time limit of all runs of a new plan",
            Self::BudgetCost => "cost limit of all plans together in US dollars",
            Self::BudgetTokens => "token limit of all plans together",
            Self::SandboxReadable => {
                "more paths that rules and set-ups may read, separated by commas"
            }
            Self::SandboxWritable => {
                "more paths that rules and set-ups may write, separated by commas"
            }
            Self::SandboxUnconfined => {
                "repositories whose set-up runs unconfined, separated by commas"
            }
        }
    }

    /// Checks that a value is valid for this key.
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
            Self::Notify if value.contains('\0') => Err(CommandError::usage(
                "A command cannot contain a NUL character.",
            )),
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

    pub fn parse(name: &str) -> Result<Self, CommandError> {
        SETTING_KEYS
            .into_iter()
            .find(|key| key.as_str() == name)
            .ok_or_else(|| {
                let known: Vec<&str> = SETTING_KEYS.iter().map(|key| key.as_str()).collect();
                CommandError::usage(format!(
                    "`{name}` is not a setting. Settings: {}.",
                    known.join(", ")
                ))
            })
    }
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingOrigin {
    Flag,
    /// The name of the variable.
    Environment(&'static str),
    /// The path of the user's file.
    File(PathBuf),
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

/// A source of defaults for new plans. A repository's `planwright.yaml` ranks between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingLayer {
    Environment,
    /// The user's file.
    File,
}

/// The effective value of a key and its origin.
#[derive(Debug, Clone)]
pub struct Setting {
    pub key: SettingKey,
    pub value: Option<String>,
    pub origin: SettingOrigin,
}

/// The outcome of removing a setting from the user's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingRemoval {
    Removed,
    NotPresent,
}

/// The effective settings of one invocation.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Planwright's own directory: store, sandboxes, `config.yaml`, agent definitions.
    pub home: PathBuf,
    values: Vec<Setting>,
}

impl Settings {
    /// Reads flags, environment and the user's file. Fails on the first invalid value.
    pub fn load(store_flag: Option<&str>) -> Result<Self, CommandError> {
        let home = match read_variable("PLANWRIGHT_HOME")? {
            Some(home) => PathBuf::from(home),
            None => home::default_home()?,
        };
        let file = home.join("config.yaml");
        let in_file = read_settings_file(&file)?;
        let mut values = Vec::new();
        for key in SETTING_KEYS {
            let flag = store_flag
                .filter(|_| key == SettingKey::Store)
                .map(str::to_owned);
            let file_value = in_file
                .iter()
                .find(|(name, _)| name == key.as_str())
                .map(|(_, value)| value.clone());
            let (value, origin) = if let Some(value) = flag {
                (Some(value), SettingOrigin::Flag)
            } else if let Some(value) = read_variable(key.variable_name())? {
                (Some(value), SettingOrigin::Environment(key.variable_name()))
            } else if let Some(value) = file_value {
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

    /// Reads everything again, for a process that runs for long.
    pub fn reload(&self) -> Result<Self, CommandError> {
        let store = self.get(SettingKey::Store);
        let flag = store.value.as_deref();
        Self::load(flag.filter(|_| store.origin == SettingOrigin::Flag))
    }

    pub fn all(&self) -> &[Setting] {
        &self.values
    }

    pub fn get(&self, key: SettingKey) -> &Setting {
        self.values
            .iter()
            .find(|setting| setting.key == key)
            .expect("BUG: load() reads every key")
    }

    pub fn store_address(&self) -> Result<StoreAddress, CommandError> {
        StoreAddress::parse(
            self.get(SettingKey::Store)
                .value
                .as_deref()
                .unwrap_or_default(),
        )
    }

    /// The profile set by variable or file; `None` if only the default applies.
    pub fn chosen_profile(&self) -> Option<Profile> {
        let layers = [SettingLayer::Environment, SettingLayer::File].into_iter();
        layers
            .filter_map(|layer| self.plan_defaults(layer).profile)
            .next()
    }

    /// The defaults for new plans that come from one layer.
    pub fn plan_defaults(&self, layer: SettingLayer) -> PlanDefaults {
        let in_layer = |key| {
            let setting = self.get(key);
            let is_in_layer = match setting.origin {
                SettingOrigin::Environment(_) => layer == SettingLayer::Environment,
                SettingOrigin::File(_) => layer == SettingLayer::File,
                SettingOrigin::Flag | SettingOrigin::Default => false,
            };
            setting.value.as_deref().filter(|_| is_in_layer)
        };
        PlanDefaults {
            actor: in_layer(SettingKey::Actor).and_then(|value| value.parse().ok()),
            profile: in_layer(SettingKey::Profile).and_then(|value| value.parse().ok()),
            limits: LimitOverrides {
                attempts: in_layer(SettingKey::LimitAttempts)
                    .and_then(|value| limits::parse_attempts(value).ok()),
                timeout: in_layer(SettingKey::LimitTimeout).and_then(|value| value.parse().ok()),
                cost: in_layer(SettingKey::LimitCost).and_then(|value| value.parse().ok()),
                tokens: in_layer(SettingKey::LimitTokens)
                    .and_then(|value| limits::parse_tokens(value).ok()),
                time: in_layer(SettingKey::LimitTime).and_then(|value| value.parse().ok()),
            },
        }
    }

    /// The limits of all plans together.
    pub fn budget(&self) -> GlobalBudget {
        let value_of = |key| self.get(key).value.as_deref();
        limits::parse_budget(
            value_of(SettingKey::BudgetCost),
            value_of(SettingKey::BudgetTokens),
        )
    }

    /// Paths that set-up commands and rules may write, in addition to their checkout. `~/` is not expanded.
    pub fn writable_paths(&self) -> Vec<String> {
        self.listed_paths(SettingKey::SandboxWritable)
    }

    /// Paths that set-up commands and rules may read, in addition to tools and caches. `~/` is not expanded.
    pub fn readable_paths(&self) -> Vec<String> {
        self.listed_paths(SettingKey::SandboxReadable)
    }

    fn listed_paths(&self, key: SettingKey) -> Vec<String> {
        self.get(key)
            .value
            .as_deref()
            .and_then(|value| parse_paths(value).ok())
            .unwrap_or_default()
    }

    /// Repositories whose set-up command runs unconfined, with `~/` expanded.
    pub fn unconfined_repositories(&self, user_home: Option<&Path>) -> Vec<PathBuf> {
        let expanded = self.listed_paths(SettingKey::SandboxUnconfined).into_iter();
        let expanded = expanded.filter_map(|path| match path.strip_prefix("~/") {
            Some(below) => Some(user_home?.join(below)),
            None => Some(PathBuf::from(path)),
        });
        expanded.collect()
    }

    /// The path of the user's file.
    pub fn file_path(&self) -> PathBuf {
        self.home.join("config.yaml")
    }

    /// Sets one key in the user's file. Rewrites the whole file; comments in it are lost.
    pub fn write_setting(&self, key: SettingKey, value: &str) -> Result<(), CommandError> {
        key.check_value(value)?;
        let mut entries = read_settings_file(&self.file_path())?;
        entries.retain(|(name, _)| name != key.as_str());
        entries.push((key.as_str().to_owned(), value.to_owned()));
        self.write_file(entries)
    }

    /// Removes one key from the user's file.
    pub fn remove_setting(&self, key: SettingKey) -> Result<SettingRemoval, CommandError> {
        let mut entries = read_settings_file(&self.file_path())?;
        let before = entries.len();
        entries.retain(|(name, _)| name != key.as_str());
        if entries.len() == before {
            return Ok(SettingRemoval::NotPresent);
        }
        self.write_file(entries)?;
        Ok(SettingRemoval::Removed)
    }

    fn write_file(&self, mut entries: Vec<(String, String)>) -> Result<(), CommandError> {
        let path = self.file_path();
        entries.sort();
        let text: String = entries
            .iter()
            // A JSON string is also a quoted YAML string, so any value reads back unchanged.
            .map(|(name, value)| format!("{name}: {}\n", serde_json::json!(value)))
            .collect();
        let failed = |error: std::io::Error| CommandError::for_file(&path, "written", &error);
        home::make_private_directory(&self.home).map_err(failed)?;
        // Write beside the file and rename, so that a crash cannot leave half a file.
        let new = path.with_extension("yaml.new");
        home::write_private_file(&new, &text).map_err(failed)?;
        std::fs::rename(&new, &path).map_err(failed)
    }
}

/// The environment that git child processes get.
#[expect(
    clippy::disallowed_methods,
    reason = "this module is the only one that reads the environment"
)]
pub fn read_git_env() -> GitEnv {
    GitEnv {
        program: "git".into(),
        path: std::env::var_os("PATH"),
        home: std::env::var_os("HOME"),
        config_home: std::env::var_os("XDG_CONFIG_HOME"),
        timeout: sandbox::GIT_TIMEOUT,
        stop: None,
    }
}

/// Where agents keep their settings.
pub struct ClientDirectories {
    pub home: Option<PathBuf>,
    /// Claude Code's own choice.
    pub claude_config: Option<PathBuf>,
    /// Codex's own choice.
    pub codex_home: Option<PathBuf>,
}

#[expect(
    clippy::disallowed_methods,
    reason = "this module is the only one that reads the environment"
)]
pub fn read_client_directories() -> ClientDirectories {
    let directory = |name: &str| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty());
        value.map(PathBuf::from)
    };
    ClientDirectories {
        home: directory("HOME"),
        claude_config: directory("CLAUDE_CONFIG_DIR"),
        codex_home: directory("CODEX_HOME"),
    }
}

/// The whole environment. Actors get only the variables they are allowed.
#[expect(
    clippy::disallowed_methods,
    reason = "this module is the only one that reads the environment"
)]
pub fn read_environment() -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    std::env::vars_os().collect()
}

/// Returns the key of the agent run that started this program, if any: every run gets its key in this variable.
#[expect(
    clippy::disallowed_methods,
    reason = "this module is the only one that reads the environment"
)]
pub fn enclosing_run() -> Option<String> {
    std::env::var_os("PLANWRIGHT_RUN_KEY").map(|key| key.to_string_lossy().into_owned())
}

/// The user's editor from `VISUAL` or `EDITOR`.
#[expect(
    clippy::disallowed_methods,
    reason = "this module is the only one that reads the environment"
)]
pub fn find_editor() -> Option<std::ffi::OsString> {
    let mut editors = ["VISUAL", "EDITOR"]
        .into_iter()
        .filter_map(std::env::var_os);
    editors.find(|editor| !editor.is_empty())
}

/// The user's shell; `/bin/sh` if `SHELL` is not set.
#[expect(
    clippy::disallowed_methods,
    reason = "this module is the only one that reads the environment"
)]
pub fn user_shell() -> std::ffi::OsString {
    std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into())
}

/// Extra variables for a person's shell in a sandbox: sets `safe.bareRepository=explicit`, so that git ignores
/// directories that an agent made to look like a bare repository. Appended to existing `GIT_CONFIG_*` variables.
#[expect(
    clippy::disallowed_methods,
    reason = "this module is the only one that reads the environment"
)]
pub fn shell_git_variables() -> Vec<(String, String)> {
    let count = std::env::var("GIT_CONFIG_COUNT").ok();
    let next = count
        .and_then(|count| count.parse::<u32>().ok())
        .unwrap_or(0);
    let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    vec![
        named(&format!("GIT_CONFIG_KEY_{next}"), "safe.bareRepository"),
        named(&format!("GIT_CONFIG_VALUE_{next}"), "explicit"),
        named("GIT_CONFIG_COUNT", &(next + 1).to_string()),
    ]
}

const ADDRESS_HINT: &str = "Use sqlite:PATH or postgres://USER@HOST/DATABASE";

/// A parsed store address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreAddress {
    Sqlite(PathBuf),
    /// The URL as given, already checked.
    Postgres(String),
}

impl StoreAddress {
    /// Reads `sqlite:PATH` or `postgres://…`.
    pub fn parse(text: &str) -> Result<Self, CommandError> {
        if let Some(path) = text.strip_prefix("sqlite:") {
            if path.is_empty() || path == ":memory:" {
                return Err(CommandError::usage("`sqlite:` needs a file path."));
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
                "A memory store is gone when the command ends.",
            )
            .with_hint(
                "Use --store sqlite:PATH. The memory store is for programs that embed Planwright.",
            ));
        }
        Err(CommandError::usage(format!(
            "`{}` is not a store address.",
            text.chars().take(80).collect::<String>()
        ))
        .with_hint(ADDRESS_HINT))
    }
}

impl StoreAddress {
    /// Refuses a path at which no store can ever be, because something above it is not a directory. Otherwise such a
    /// store would read as empty.
    pub fn check_place(&self) -> Result<(), CommandError> {
        let Self::Sqlite(path) = self else {
            return Ok(());
        };
        let mut above = path.ancestors().skip(1);
        let existing = above.find(|directory| directory.symlink_metadata().is_ok());
        match existing {
            Some(existing) if !existing.is_dir() => Err(CommandError::new(
                CommandExit::Error,
                format!(
                    "Can't create a store at {}: {} is not a directory.",
                    path.display(),
                    existing.display()
                ),
            )
            .with_hint("Choose another location with --store sqlite:PATH or PLANWRIGHT_HOME.")),
            Some(existing) if !path.exists() && !can_hold_files(existing) => {
                Err(CommandError::new(
                    CommandExit::Error,
                    format!(
                        "Can't create a store at {}: {} is not writable.",
                        path.display(),
                        existing.display()
                    ),
                )
                .with_hint("Choose another location with --store sqlite:PATH or PLANWRIGHT_HOME."))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Returns whether this process can create files in a directory. Creates none.
fn can_hold_files(directory: &Path) -> bool {
    /// The kernel's own trees. Their permissions do not stop root, but files cannot be created there.
    const KERNEL_TREES: [&str; 2] = ["/proc", "/sys"];
    let is_writable = rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).is_ok();
    is_writable && !KERNEL_TREES.iter().any(|tree| directory.starts_with(tree))
}

/// Parses comma-separated paths, each starting with `/` or `~/`.
fn parse_paths(value: &str) -> Result<Vec<String>, String> {
    let mut paths = Vec::new();
    for path in value
        .split(',')
        .map(str::trim)
        .filter(|path| !path.is_empty())
    {
        let is_absolute = path.starts_with('/') || path.starts_with("~/");
        if !is_absolute || path.contains('\0') {
            return Err(format!(
                "`{path}` is not a path that begins with `/` or `~/`."
            ));
        }
        if matches!(path.trim_end_matches('/'), "" | "~") {
            return Err(format!(
                "`{path}` covers everything. Name a directory inside it."
            ));
        }
        paths.push(path.to_owned());
    }
    if paths.is_empty() {
        return Err("Expected at least one path.".to_owned());
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
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            let home = path.parent().unwrap_or(path).display();
            return Err(CommandError::new(
                CommandExit::Error,
                format!("Planwright's home {home} is not a directory"),
            )
            .with_kind("bad_home")
            .with_hint("Set PLANWRIGHT_HOME to a directory you own."));
        }
        Err(error) => return Err(CommandError::for_file(path, "read", &error)),
    };
    let known: Vec<&str> = SETTING_KEYS.iter().map(|key| key.as_str()).collect();
    let entries = yaml::parse_settings(&source, &home::display_path(path), &known)
        .map_err(|problem| CommandError::malformed_file(problem, &source))?;
    Ok(entries
        .into_iter()
        .map(|(name, value, _)| (name, value))
        .collect())
}

/// Reads a variable; an empty one counts as not set.
#[expect(
    clippy::disallowed_methods,
    reason = "this module is the only one that reads the environment"
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
