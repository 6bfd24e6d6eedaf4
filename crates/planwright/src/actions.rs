//! Finds actions: stored ones first, then those that the repository's `planwright.yaml` defines.

use plan::action::{ActionDefinition, ActionState};
use plan::{Action, Digest, QualifiedName, Refusal};

use crate::cli::App;
use crate::current_repository;
use crate::error::{CommandError, did_you_mean};
use crate::exit::CommandExit;
use crate::repository_config::{self, RepositoryAction};

/// The namespace of copies of repository actions, stored when a plan uses one.
const FROZEN_NAMESPACE: &str = "repository/";

const FROZEN_DIGEST_CHARS: usize = 16;

/// At most this much of the action's own name goes into the frozen name.
const MAX_FROZEN_NAME_CHARS: usize = 80;

/// An action and where it was found.
#[derive(Debug)]
pub enum FoundAction {
    Stored(Box<Action>),
    InRepository(Box<RepositoryAction>),
}

impl FoundAction {
    pub fn definition(&self) -> &ActionDefinition {
        match self {
            Self::Stored(action) => &action.definition,
            Self::InRepository(action) => &action.definition,
        }
    }
}

/// Finds an action by name. An available stored action wins over the repository's: cloning a repository must
/// not change what a name means.
pub fn find_action(
    app: &App,
    name: &QualifiedName,
    defined: &[RepositoryAction],
) -> Result<FoundAction, CommandError> {
    let stored = find_stored_action(app, name)?;
    let usable = stored.as_ref().is_some_and(is_available);
    let from_repository = match usable {
        true => None,
        false => find_repository_action(name, defined)?,
    };
    match (from_repository, stored) {
        (Some(action), _) => Ok(FoundAction::InRepository(Box::new(action))),
        (None, Some(action)) => Ok(FoundAction::Stored(Box::new(action))),
        (None, None) => Err(unknown_action_error(app, name, defined)),
    }
}

/// Looks up an action in the store, archived ones included.
pub fn find_stored_action(app: &App, name: &QualifiedName) -> Result<Option<Action>, CommandError> {
    match app.lifecycle()?.get_action(name) {
        Ok(action) => Ok(Some(action)),
        Err(lifecycle::LifecycleError::Refused(Refusal::NoSuchAction(_))) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub fn is_available(action: &Action) -> bool {
    action.state == ActionState::Available
}

/// The actions that the current repository defines; empty outside a repository.
pub fn repository_actions_here() -> Result<Vec<RepositoryAction>, CommandError> {
    match current_repository::find_checkout_root() {
        Some(root) => Ok(repository_config::read_for_repository(&root)?.actions),
        None => Ok(Vec::new()),
    }
}

/// Stores a copy of a repository's action and returns its name, which contains a digest of the definition.
/// Plans refer to the copy, so later changes to the file do not affect them. Idempotent.
pub fn freeze_action(app: &App, action: &RepositoryAction) -> Result<QualifiedName, CommandError> {
    let frozen = ActionDefinition {
        name: frozen_name(&action.definition),
        ..action.definition.clone()
    };
    let name = frozen.name.clone();
    let is_same = |stored: Option<Action>| stored.is_some_and(|stored| stored.definition == frozen);
    if is_same(find_stored_action(app, &name)?) {
        return Ok(name);
    }
    match app
        .lifecycle()?
        .create_action(frozen.clone(), &app.new_call())
    {
        Ok(_) => Ok(name),
        // Another process stored the same definition in the meantime.
        Err(lifecycle::LifecycleError::Refused(Refusal::ActionExists { .. }))
            if is_same(find_stored_action(app, &name)?) =>
        {
            Ok(name)
        }
        Err(error) => Err(blame_file(&action.file.display().to_string(), error)),
    }
}

/// Prefixes an invalid-rule error with the file that contains the rule; returns other errors unchanged.
pub fn blame_file(file: &str, error: lifecycle::LifecycleError) -> CommandError {
    let is_rule = matches!(error, lifecycle::LifecycleError::InvalidRule(_));
    let error = CommandError::from(error);
    if !is_rule {
        return error;
    }
    CommandError {
        exit: CommandExit::Error,
        message: format!("{file}: {}", error.message),
        ..error
    }
}

/// Returns whether this names a frozen copy of a repository action.
pub fn is_frozen(name: &QualifiedName) -> bool {
    name.full_name().starts_with(FROZEN_NAMESPACE)
}

fn frozen_name(definition: &ActionDefinition) -> QualifiedName {
    let encoded = serde_json::to_vec(definition).expect("BUG: a definition always encodes");
    let digest = Digest::hash_bytes(&encoded).to_string();
    let own: String = definition
        .name
        .to_string()
        .replace('/', ".")
        .chars()
        .take(MAX_FROZEN_NAME_CHARS)
        .collect();
    format!("{FROZEN_NAMESPACE}{own}.{}", &digest[..FROZEN_DIGEST_CHARS])
        .parse()
        .expect("BUG: a name, a dot and hex digits form a valid name")
}

/// Finds a repository action by name. Refuses if several repositories define it differently.
fn find_repository_action(
    name: &QualifiedName,
    defined: &[RepositoryAction],
) -> Result<Option<RepositoryAction>, CommandError> {
    let mut found = defined.iter().filter(|one| one.definition.name == *name);
    let Some(first) = found.next() else {
        return Ok(None);
    };
    match found.find(|other| other.definition != first.definition) {
        None => Ok(Some(first.clone())),
        Some(other) => Err(CommandError::usage(format!(
            "{} and {} define `{name}` differently.",
            first.file.display(),
            other.file.display()
        ))
        .with_hint("Make the definitions equal, or use the projects in separate plans.")),
    }
}

fn unknown_action_error(
    app: &App,
    name: &QualifiedName,
    defined: &[RepositoryAction],
) -> CommandError {
    const MAX_LISTED_ACTIONS: usize = 500;
    let error = CommandError::from(lifecycle::LifecycleError::Refused(Refusal::NoSuchAction(
        name.clone(),
    )));
    let stored = app
        .lifecycle()
        .ok()
        .and_then(|lifecycle| lifecycle.list_actions(None, MAX_LISTED_ACTIONS).ok());
    let stored = stored.unwrap_or_default();
    let stored = stored.iter().map(plan::Action::name);
    let known: Vec<String> = stored
        .chain(defined.iter().map(|action| &action.definition.name))
        .map(ToString::to_string)
        .collect();
    did_you_mean(error, &name.to_string(), &known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_described_action(name: &str, description: &str) -> ActionDefinition {
        let source = format!("name: {name}\ndescription: {description}\n");
        crate::yaml::parse_action(&source, "a test").unwrap()
    }

    #[test]
    fn different_definitions_have_different_frozen_names() {
        let one = frozen_name(&parse_described_action("tidy", "Tidy up"));
        assert!(is_frozen(&one), "{one}");
        assert!(one.to_string().starts_with("repository/tidy."), "{one}");
        assert_eq!(one, frozen_name(&parse_described_action("tidy", "Tidy up")));
        assert_ne!(
            one,
            frozen_name(&parse_described_action("tidy", "Tidy up well"))
        );
        assert_ne!(
            one,
            frozen_name(&parse_described_action("acme/tidy", "Tidy up"))
        );
        frozen_name(&parse_described_action(
            &format!("acme/{}", "x".repeat(122)),
            "Long",
        ));
        assert!(!is_frozen(&"repository".parse().unwrap()));
    }
}
