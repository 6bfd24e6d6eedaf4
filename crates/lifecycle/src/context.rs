//! Recording changes while executing.
//!
//! The context holds no list of changesets: what is open is in the store, and which one is meant is
//! resolved in the transaction that writes. Two threads can share a context, or each have one;
//! there is nothing between them to race on.

use plan::changeset::{Entry, Node};
use plan::command::Into;
use plan::{ChangesetId, Epoch, PlanId};

use crate::{Call, Error, Lifecycle};

/// Where the work of one claim records its changes.
#[derive(Clone)]
pub struct ExecutionContext {
    lifecycle: Lifecycle,
    plan: PlanId,
    epoch: Epoch,
    call: Call,
    node: Option<Node>,
}

impl ExecutionContext {
    pub(crate) fn new(lifecycle: Lifecycle, plan: PlanId, epoch: Epoch, call: Call) -> Self {
        Self {
            lifecycle,
            plan,
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
    pub fn start_changeset(&self) -> Result<ChangesetHandle, Error> {
        let node = self.node.clone().unwrap_or_else(Node::main);
        let done = self
            .lifecycle
            .open_changeset(self.plan, self.epoch, node, &self.call)?;
        let id = done
            .receipt
            .changeset
            .expect("BUG: opening a changeset answers its id");
        Ok(ChangesetHandle {
            context: self.clone(),
            id,
        })
    }

    /// Records into the open changeset of this unit of work; without a unit, into the only open
    /// one. Several open and no unit: refused. Answers where it went.
    pub fn record_change(&self, entry: Entry) -> Result<ChangesetId, Error> {
        let into = match &self.node {
            Some(node) => Into::Node(node.clone()),
            None => Into::OnlyOpen,
        };
        self.record(into, entry)
    }

    fn record(&self, into: Into, entry: Entry) -> Result<ChangesetId, Error> {
        let done = self
            .lifecycle
            .record_change(self.plan, self.epoch, into, entry, &self.call)?;
        Ok(done
            .receipt
            .changeset
            .expect("BUG: recording a change answers its changeset"))
    }
}

/// An open changeset. Entries recorded through it belong to it and to no other.
pub struct ChangesetHandle {
    context: ExecutionContext,
    id: ChangesetId,
}

impl ChangesetHandle {
    /// Its id.
    pub fn id(&self) -> ChangesetId {
        self.id
    }

    /// Records one change.
    pub fn record(&self, entry: Entry) -> Result<(), Error> {
        self.context
            .record(Into::Changeset(self.id), entry)
            .map(drop)
    }

    /// Closes it for good.
    pub fn seal(self) -> Result<(), Error> {
        let ExecutionContext {
            lifecycle,
            plan,
            epoch,
            call,
            ..
        } = &self.context;
        lifecycle
            .seal_changeset(*plan, *epoch, self.id, call)
            .map(drop)
    }
}
