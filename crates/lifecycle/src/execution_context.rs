//! Records changes during execute.
//!
//! The context keeps no list of changesets. Each write resolves its changeset inside its transaction, so
//! threads can share a context, or each have their own, without races.

use plan::changeset::{ChangesetEntry, Node};
use plan::command::{ChangesetSelector, RecordChange, SealChangeset};
use plan::{ChangesetId, Epoch, PlanId};

use crate::{Call, Lifecycle, LifecycleError};

/// Records the changes of one claim.
#[derive(Clone)]
pub struct ExecutionContext {
    lifecycle: Lifecycle,
    plan_id: PlanId,
    epoch: Epoch,
    call: Call,
    node: Option<Node>,
}

impl ExecutionContext {
    pub(crate) fn new(lifecycle: Lifecycle, plan_id: PlanId, epoch: Epoch, call: Call) -> Self {
        Self {
            lifecycle,
            plan_id,
            epoch,
            call,
            node: None,
        }
    }

    /// A context for one unit of work. Its changes go to that unit's changeset.
    #[must_use]
    pub fn for_node(&self, node: Node) -> Self {
        Self {
            node: Some(node),
            ..self.clone()
        }
    }

    /// Opens the changeset of this unit of work.
    pub fn start_changeset(&self) -> Result<ChangesetHandle, LifecycleError> {
        let node = self.node.clone().unwrap_or_else(Node::main);
        let done = self
            .lifecycle
            .open_changeset(self.plan_id, self.epoch, node, &self.call)?;
        let id = done
            .receipt
            .changeset
            .expect("BUG: the receipt of an opened changeset has its id");
        Ok(ChangesetHandle {
            context: self.clone(),
            changeset_id: id,
        })
    }

    /// Records into the open changeset of this unit of work. Without a unit, records into the only
    /// open changeset; refused if several are open. Returns the changeset.
    pub fn record_change(&self, entry: ChangesetEntry) -> Result<ChangesetId, LifecycleError> {
        let into = match &self.node {
            Some(node) => ChangesetSelector::Node(node.clone()),
            None => ChangesetSelector::OnlyOpen,
        };
        self.record_into(into, entry)
    }

    fn record_into(
        &self,
        into: ChangesetSelector,
        entry: ChangesetEntry,
    ) -> Result<ChangesetId, LifecycleError> {
        let done = self.lifecycle.submit_command(
            self.plan_id,
            RecordChange::new(self.epoch, into, entry),
            &self.call,
        )?;
        Ok(done
            .receipt
            .changeset
            .expect("BUG: the receipt of a recorded change has its changeset"))
    }
}

/// An open changeset. All entries recorded through it belong to it.
pub struct ChangesetHandle {
    context: ExecutionContext,
    changeset_id: ChangesetId,
}

impl ChangesetHandle {
    pub fn id(&self) -> ChangesetId {
        self.changeset_id
    }

    pub fn record_change(&self, entry: ChangesetEntry) -> Result<(), LifecycleError> {
        self.context
            .record_into(ChangesetSelector::Changeset(self.changeset_id), entry)
            .map(drop)
    }

    /// Closes the changeset permanently.
    pub fn seal(self) -> Result<(), LifecycleError> {
        let ExecutionContext {
            lifecycle,
            plan_id,
            epoch,
            call,
            ..
        } = &self.context;
        lifecycle
            .submit_command(
                *plan_id,
                SealChangeset::new(*epoch, self.changeset_id),
                call,
            )
            .map(drop)
    }
}
