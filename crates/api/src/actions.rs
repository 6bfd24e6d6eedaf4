//! Actions: stored ones, and those that a repository's `planwright.yaml` defines.

use std::path::PathBuf;

use lifecycle::{Call, Lifecycle, LifecycleError};
use plan::action::{ActionDefinition, ActionState};
use plan::{Action, Digest, QualifiedName, Refusal};

use crate::plan_config::RepositoryAction;

/// The namespace of copies of repository actions, stored when a plan uses one.
const FROZEN_NAMESPACE: &str = "repository/";

const FROZEN_DIGEST_CHARS: usize = 16;

/// At most this much of the action's own name goes into the frozen name.
const MAX_FROZEN_NAME_CHARS: usize = 80;

/// At most this many stored actions are searched for a similar name.
const MAX_KNOWN_ACTIONS: usize = 500;

/// An action and where it was found.
#[derive(Debug, Clone)]
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

/// Why an action cannot be found or used.
#[derive(Debug, thiserror::Error)]
pub enum ActionError {
    #[error("action `{name}` does not exist")]
    UnknownAction {
        name: QualifiedName,
        /// All names that exist, to suggest one of them.
        known: Vec<QualifiedName>,
    },
    #[error("{} and {} define `{name}` differently", files[0].display(), files[1].display())]
    DefinitionsDiffer {
        name: QualifiedName,
        files: [PathBuf; 2],
    },
    /// A rule of a repository's action cannot be checked, or the action cannot be stored.
    #[error("{}: {error}", file.display())]
    InRepository {
        file: PathBuf,
        #[source]
        error: LifecycleError,
    },
    #[error(transparent)]
    Engine(#[from] LifecycleError),
}

/// Finds an action by name. An available stored action wins over the repositories': cloning a repository must
/// not change what a name means.
pub fn find_action(
    lifecycle: &Lifecycle,
    name: &QualifiedName,
    in_repository: &[RepositoryAction],
) -> Result<FoundAction, ActionError> {
    let stored = find_stored_action(lifecycle, name)?;
    let usable = stored.as_ref().is_some_and(is_available);
    let from_repository = match usable {
        true => None,
        false => find_repository_action(name, in_repository)?,
    };
    match (from_repository, stored) {
        (Some(action), _) => Ok(FoundAction::InRepository(Box::new(action))),
        (None, Some(action)) => Ok(FoundAction::Stored(Box::new(action))),
        (None, None) => Err(ActionError::UnknownAction {
            name: name.clone(),
            known: list_known_names(lifecycle, in_repository),
        }),
    }
}

/// Stores a new action.
pub fn create_action(
    lifecycle: &Lifecycle,
    definition: &ActionDefinition,
    call: &Call,
) -> Result<Action, LifecycleError> {
    lifecycle.actions().create_action(definition.clone(), call)
}

/// Archives an action. No new plans can use it; existing plans continue.
pub fn archive_action(
    lifecycle: &Lifecycle,
    name: &QualifiedName,
    call: &Call,
) -> Result<Action, LifecycleError> {
    lifecycle.actions().archive_action(name, call)
}

/// A page of actions.
#[derive(Debug)]
pub struct ActionPage {
    /// The repositories' own actions. Only on the first page.
    pub in_repository: Vec<ListedRepositoryAction>,
    /// Stored actions by name, without the copies of repository actions, which nobody uses by name.
    pub stored: Vec<Action>,
    /// The last stored action of this page, if there are more.
    pub next: Option<QualifiedName>,
}

/// A repository's action in a list.
#[derive(Debug)]
pub struct ListedRepositoryAction {
    pub action: RepositoryAction,
    /// A stored action hides it.
    pub is_shadowed: bool,
}

pub fn list_actions(
    lifecycle: &Lifecycle,
    in_repository: &[RepositoryAction],
    after: Option<&QualifiedName>,
    limit: usize,
) -> Result<ActionPage, LifecycleError> {
    let mut stored = list_named_actions(lifecycle, after, limit + 1)?;
    let has_more = stored.len() > limit;
    stored.truncate(limit);
    let mut listed = Vec::new();
    let is_first_page = after.is_none();
    for action in in_repository.iter().filter(|_| is_first_page) {
        let hiding = find_stored_action(lifecycle, &action.definition.name)?;
        listed.push(ListedRepositoryAction {
            action: action.clone(),
            is_shadowed: hiding.as_ref().is_some_and(is_available),
        });
    }
    let last = stored.last().filter(|_| has_more);
    Ok(ActionPage {
        in_repository: listed,
        next: last.map(|action| action.name().clone()),
        stored,
    })
}

/// Returns up to `limit` stored actions that are not copies of repository actions.
fn list_named_actions(
    lifecycle: &Lifecycle,
    after: Option<&QualifiedName>,
    limit: usize,
) -> Result<Vec<Action>, LifecycleError> {
    let mut found = Vec::new();
    let mut after = after.cloned();
    loop {
        let page = lifecycle.actions().list_actions(after.as_ref(), limit)?;
        let is_last_page = page.len() < limit;
        after = page.last().map(|action| action.name().clone()).or(after);
        found.extend(page.into_iter().filter(|one| !is_frozen(one.name())));
        if is_last_page || found.len() >= limit {
            found.truncate(limit);
            return Ok(found);
        }
    }
}

/// Looks up an action in the store, archived ones included.
pub fn find_stored_action(
    lifecycle: &Lifecycle,
    name: &QualifiedName,
) -> Result<Option<Action>, LifecycleError> {
    match lifecycle.actions().get_action(name) {
        Ok(action) => Ok(Some(action)),
        Err(LifecycleError::Refused(Refusal::NoSuchAction(_))) => Ok(None),
        Err(error) => Err(error),
    }
}

pub fn is_available(action: &Action) -> bool {
    action.state == ActionState::Available
}

/// Returns whether this names a frozen copy of a repository action.
pub fn is_frozen(name: &QualifiedName) -> bool {
    name.full_name().starts_with(FROZEN_NAMESPACE)
}

/// Stores a copy of a repository's action and returns its name, which contains a digest of the definition.
/// Plans refer to the copy, so later changes to the file do not affect them. Idempotent.
pub(crate) fn freeze_action(
    lifecycle: &Lifecycle,
    action: &RepositoryAction,
    call: &Call,
) -> Result<QualifiedName, ActionError> {
    let frozen = ActionDefinition {
        name: frozen_name(&action.definition),
        ..action.definition.clone()
    };
    let name = frozen.name.clone();
    let is_same = |stored: Option<Action>| stored.is_some_and(|stored| stored.definition == frozen);
    if is_same(find_stored_action(lifecycle, &name)?) {
        return Ok(name);
    }
    match lifecycle
        .actions()
        .create_action(frozen.clone(), &call.follow_up())
    {
        Ok(_) => Ok(name),
        // Another process stored the same definition in the meantime.
        Err(LifecycleError::Refused(Refusal::ActionExists { .. }))
            if is_same(find_stored_action(lifecycle, &name)?) =>
        {
            Ok(name)
        }
        Err(error) => Err(ActionError::InRepository {
            file: action.file.clone(),
            error,
        }),
    }
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
    in_repository: &[RepositoryAction],
) -> Result<Option<RepositoryAction>, ActionError> {
    let mut found = in_repository
        .iter()
        .filter(|one| one.definition.name == *name);
    let Some(first) = found.next() else {
        return Ok(None);
    };
    match found.find(|other| other.definition != first.definition) {
        None => Ok(Some(first.clone())),
        Some(other) => Err(ActionError::DefinitionsDiffer {
            name: name.clone(),
            files: [first.file.clone(), other.file.clone()],
        }),
    }
}

fn list_known_names(
    lifecycle: &Lifecycle,
    in_repository: &[RepositoryAction],
) -> Vec<QualifiedName> {
    // The names only serve a suggestion, so a store that fails here does not hide the real error.
    let stored = lifecycle.actions().list_actions(None, MAX_KNOWN_ACTIONS);
    let stored = stored.unwrap_or_default();
    let stored = stored.iter().map(Action::name);
    stored
        .chain(in_repository.iter().map(|action| &action.definition.name))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe_action(name: &str, description: &str) -> ActionDefinition {
        ActionDefinition {
            description: description.to_owned(),
            ..testkit::samples::reusable_action(name)
        }
    }

    #[test]
    fn different_definitions_have_different_frozen_names() {
        let one = frozen_name(&describe_action("tidy", "Tidy up"));
        assert!(is_frozen(&one), "{one}");
        assert!(one.to_string().starts_with("repository/tidy."), "{one}");
        assert_eq!(one, frozen_name(&describe_action("tidy", "Tidy up")));
        assert_ne!(one, frozen_name(&describe_action("tidy", "Tidy up well")));
        assert_ne!(one, frozen_name(&describe_action("acme/tidy", "Tidy up")));
        frozen_name(&describe_action(
            &format!("acme/{}", "x".repeat(122)),
            "Long",
        ));
        assert!(!is_frozen(&"repository".parse().unwrap()));
    }
}
