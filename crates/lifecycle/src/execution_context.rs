//! Recording changes while executing.
//!
//! The context holds no list of changesets: what is open is in the store, and which one is meant is
//! resolved in the transaction that writes. Two threads can share a context, or each have one;
//! there is nothing between them to race on.

use plan::changeset::{ChangesetEntry, Node};
use plan::command::ChangesetSelector;
use plan::{ChangesetId, Epoch, PlanId};

use crate::{Call, Lifecycle, LifecycleError};

/// Where the work of one claim records its changes.
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

    /// The same context for one unit of work: what it records belongs to that unit's changeset.
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
            .expect("BUG: opening a changeset answers its id");
        Ok(ChangesetHandle {
            context: self.clone(),
            changeset_id: id,
        })
    }

    /// Records into the open changeset of this unit of work; without a unit, into the only open
    /// one. Several open and no unit: refused. Answers where it went.
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
        let done =
            self.lifecycle
                .record_change(self.plan_id, self.epoch, into, entry, &self.call)?;
        Ok(done
            .receipt
            .changeset
            .expect("BUG: recording a change answers its changeset"))
    }
}

/// An open changeset. Entries recorded through it belong to it and to no other.
pub struct ChangesetHandle {
    context: ExecutionContext,
    changeset_id: ChangesetId,
}

impl ChangesetHandle {
    /// Its id.
    pub fn id(&self) -> ChangesetId {
        self.changeset_id
    }

    /// Records one change.
    pub fn record_change(&self, entry: ChangesetEntry) -> Result<(), LifecycleError> {
        self.context
            .record_into(ChangesetSelector::Changeset(self.changeset_id), entry)
            .map(drop)
    }

    /// Closes it for good.
    pub fn seal(self) -> Result<(), LifecycleError> {
        let ExecutionContext {
            lifecycle,
            plan_id: plan,
            epoch,
            call,
            ..
        } = &self.context;
        lifecycle
            .seal_changeset(*plan, *epoch, self.changeset_id, call)
            .map(drop)
    }
}
