//! Operations on actions.

use plan::action::ActionDefinition;
use plan::command::{ArchiveAction, CreateAction};
use plan::reads::CommandTarget;
use plan::{Action, QualifiedName, Refusal};

use crate::judge::check_rule;
use crate::{Call, Lifecycle, LifecycleError};

/// Templates for plans.
#[derive(Clone, Copy)]
pub struct Actions<'a> {
    lifecycle: &'a Lifecycle,
}

impl Lifecycle {
    pub fn actions(&self) -> Actions<'_> {
        Actions { lifecycle: self }
    }
}

impl Actions<'_> {
    pub fn create_action(
        &self,
        definition: ActionDefinition,
        call: &Call,
    ) -> Result<Action, LifecycleError> {
        for rule in &definition.invariants {
            check_rule(rule)?;
        }
        let name = definition.name.clone();
        self.lifecycle
            .submit(CreateAction(definition), &CommandTarget::default(), call)?;
        self.get_action(&name)
            .map_err(LifecycleError::into_commit_unknown)
    }

    /// Archives an action. No new plans can use it; existing plans continue.
    pub fn archive_action(
        &self,
        name: &QualifiedName,
        call: &Call,
    ) -> Result<Action, LifecycleError> {
        self.lifecycle
            .submit(ArchiveAction(name.clone()), &CommandTarget::default(), call)?;
        self.get_action(name)
            .map_err(LifecycleError::into_commit_unknown)
    }

    pub fn get_action(&self, name: &QualifiedName) -> Result<Action, LifecycleError> {
        Ok(self
            .lifecycle
            .store
            .read_action(name)?
            .ok_or_else(|| Refusal::NoSuchAction(name.clone()))?)
    }

    /// Returns a page of actions, ordered by name.
    pub fn list_actions(
        &self,
        after: Option<&QualifiedName>,
        limit: usize,
    ) -> Result<Vec<Action>, LifecycleError> {
        Ok(self.lifecycle.store.list_actions(after, limit)?)
    }
}
