//! A store in memory with the sample project, and clients of each kind.

use std::sync::Arc;

use lifecycle::Lifecycle;
use plan::command::{ApplyPlan, CompleteApply, CreateProject, PrepareApply};
use plan::invariant::Gate;
use plan::{Command, PlanId};
use store::{MemoryStore, Store};
use testkit::client::LONG_LEASE;
use testkit::{TestClient, TestIds, samples};

use crate::next_steps::undo;

pub struct SampleStore {
    pub lifecycle: Lifecycle,
    pub person: TestClient,
    pub worker: TestClient,
    pub agent: TestClient,
}

impl SampleStore {
    pub fn new() -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let person = TestClient::new(Arc::clone(&store), Arc::new(TestIds::new(7)));
        let project = samples::sample_project();
        let create = CreateProject {
            name: project.name,
            resources: project.resources,
        };
        person.submit(Command::from(create)).unwrap();
        Self {
            lifecycle: Lifecycle::on(store),
            worker: person.as_worker("w1"),
            agent: person.as_agent("claude"),
            person,
        }
    }

    /// Undoes a landed plan. Returns the plan that does it.
    pub fn land_undo(&self, landed: PlanId) -> PlanId {
        let undo_id = self.person.ids().next_plan_id();
        self.person.must_submit(landed, undo(undo_id));
        let submit = |command: Command| self.person.must_submit(undo_id, command);
        submit(samples::approve_command());
        let judge = |gate| self.person.judge_rules(undo_id, gate);
        let judgement = judge(Gate::Apply);
        submit(ApplyPlan { judgement }.into());
        let epoch = self.person.claim_phase(undo_id, LONG_LEASE);
        let (moves, judgement) = (samples::landing_moves(), judge(Gate::Apply));
        submit(
            PrepareApply {
                epoch,
                moves,
                judgement,
            }
            .into(),
        );
        let landed = vec![samples::RESOURCE_NAME.to_owned()];
        submit(
            CompleteApply {
                epoch,
                landed,
                rest: None,
            }
            .into(),
        );
        undo_id
    }
}
