//! What can be used here: actions that are kept in the store, and those that repositories define.

use plan::action::{ActionDefinition, ActionState};
use plan::{Action, Digest, Name, Refusal};

use crate::cli::App;
use crate::error::{CommandError, did_you_mean};
use crate::exit::Exit;
use crate::here;
use crate::wishes::{self, RepositoryAction};

/// The namespace under which definitions of repositories are kept once they were used.
const FROZEN: &str = "repository/";

/// How much of a digest tells definitions apart.
const DIGITS: usize = 16;

/// How much of its own name an action shows in the frozen one.
const SHOWN: usize = 80;

/// An action that can be used.
#[derive(Debug)]
pub enum Found {
    /// It is kept in the store.
    Kept(Box<Action>),
    /// A repository defines it.
    Defined(Box<RepositoryAction>),
}

impl Found {
    /// What it is.
    pub fn definition(&self) -> &ActionDefinition {
        match self {
            Self::Kept(action) => &action.definition,
            Self::Defined(action) => &action.definition,
        }
    }
}

/// The action of a name: the kept one first, then the repository's. What a person calls by a name must
/// not become something else by cloning a repository.
pub fn find(app: &App, name: &Name, defined: &[RepositoryAction]) -> Result<Found, CommandError> {
    let kept = kept(app, name)?;
    let usable = kept.as_ref().is_some_and(is_available);
    let of_a_repository = match usable {
        true => None,
        false => the_one(name, defined)?,
    };
    match (of_a_repository, kept) {
        (Some(action), _) => Ok(Found::Defined(Box::new(action))),
        (None, Some(action)) => Ok(Found::Kept(Box::new(action))),
        (None, None) => Err(unknown(app, name, defined)),
    }
}

/// The action that is kept under a name.
pub fn kept(app: &App, name: &Name) -> Result<Option<Action>, CommandError> {
    match app.lifecycle()?.get_action(name) {
        Ok(action) => Ok(Some(action)),
        Err(lifecycle::Error::Refused(Refusal::NoSuchAction(_))) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Can it be used?
pub fn is_available(action: &Action) -> bool {
    action.state == ActionState::Available
}

/// What the repository one is in defines.
pub fn defined_here() -> Result<Vec<RepositoryAction>, CommandError> {
    match here::checkout() {
        Some(root) => Ok(wishes::of_repository(&root)?.actions),
        None => Ok(Vec::new()),
    }
}

/// Keeps a repository's definition as it stands, so that plans can refer to it whatever becomes of the
/// file, and gives the name that only this definition has.
pub fn freeze(app: &App, action: &RepositoryAction) -> Result<Name, CommandError> {
    let frozen = ActionDefinition {
        name: frozen_name(&action.definition),
        ..action.definition.clone()
    };
    let name = frozen.name.clone();
    let before = |kept: Option<Action>| kept.is_some_and(|kept| kept.definition == frozen);
    if before(kept(app, &name)?) {
        return Ok(name);
    }
    match app.lifecycle()?.create_action(frozen.clone(), &app.call()) {
        Ok(_) => Ok(name),
        // Somebody was faster.
        Err(lifecycle::Error::Refused(Refusal::ActionExists { .. }))
            if before(kept(app, &name)?) =>
        {
            Ok(name)
        }
        Err(error) => Err(in_file(&action.file.display().to_string(), error)),
    }
}

/// What is wrong with a rule is wrong with the file it stands in.
pub fn in_file(file: &str, error: lifecycle::Error) -> CommandError {
    let is_rule = matches!(error, lifecycle::Error::Expr(_));
    let error = CommandError::from(error);
    if !is_rule {
        return error;
    }
    CommandError {
        exit: Exit::Error,
        message: format!("{file}: {}", error.message),
        ..error
    }
}

/// Is this the name of a definition that was kept when it was used?
pub fn is_frozen(name: &Name) -> bool {
    name.full().starts_with(FROZEN)
}

fn frozen_name(definition: &ActionDefinition) -> Name {
    let written = serde_json::to_vec(definition).expect("BUG: a definition always encodes");
    let digest = Digest::of(&written).to_string();
    let own: String = definition
        .name
        .to_string()
        .replace('/', ".")
        .chars()
        .take(SHOWN)
        .collect();
    format!("{FROZEN}{own}.{}", &digest[..DIGITS])
        .parse()
        .expect("BUG: a name, a dot and digits are a name")
}

/// The one of this name that repositories define; several that say the same are one.
fn the_one(
    name: &Name,
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
        .hint("Make them say the same, or use the projects in plans of their own.")),
    }
}

fn unknown(app: &App, name: &Name, defined: &[RepositoryAction]) -> CommandError {
    const MOST: usize = 500;
    let error = CommandError::from(lifecycle::Error::Refused(Refusal::NoSuchAction(
        name.clone(),
    )));
    let kept = app
        .lifecycle()
        .ok()
        .and_then(|lifecycle| lifecycle.list_actions(None, MOST).ok());
    let kept = kept.unwrap_or_default();
    let kept = kept.iter().map(plan::Action::name);
    let known: Vec<String> = kept
        .chain(defined.iter().map(|action| &action.definition.name))
        .map(ToString::to_string)
        .collect();
    did_you_mean(error, &name.to_string(), &known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(name: &str, description: &str) -> ActionDefinition {
        let source = format!("name: {name}\ndescription: {description}\n");
        crate::yaml::action(&source, "a test").unwrap()
    }

    #[test]
    fn every_definition_has_a_frozen_name_of_its_own() {
        let one = frozen_name(&action("tidy", "Tidy up"));
        assert!(is_frozen(&one), "{one}");
        assert!(one.to_string().starts_with("repository/tidy."), "{one}");
        assert_eq!(one, frozen_name(&action("tidy", "Tidy up")));
        assert_ne!(one, frozen_name(&action("tidy", "Tidy up well")));
        assert_ne!(one, frozen_name(&action("acme/tidy", "Tidy up")));
        frozen_name(&action(&format!("acme/{}", "x".repeat(122)), "Long"));
        assert!(!is_frozen(&"repository".parse().unwrap()));
    }
}
