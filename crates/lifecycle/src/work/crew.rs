//! The crew: who can work here.

use std::collections::BTreeMap;
use std::sync::Arc;

use actors::Actor;
use plan::{ActorDefinition, Name, Phase, Plan};

/// Makes an actor of a definition that was frozen into a plan.
type Hire = dyn Fn(&ActorDefinition) -> Arc<dyn Actor> + Send + Sync;

/// Who can work: actors of this program, and whoever can be started by a plan's definitions.
#[derive(Clone, Default)]
pub struct Crew {
    own: BTreeMap<Name, Arc<dyn Actor>>,
    hire: Option<Arc<Hire>>,
}

impl Crew {
    /// With an actor of this program. It comes before what a plan's definition says of the name.
    #[must_use]
    pub fn with(mut self, name: Name, actor: impl Actor + 'static) -> Self {
        self.own.insert(name, Arc::new(actor));
        self
    }

    /// With everybody that plans define.
    #[must_use]
    pub fn hiring(
        mut self,
        hire: impl Fn(&ActorDefinition) -> Arc<dyn Actor> + Send + Sync + 'static,
    ) -> Self {
        self.hire = Some(Arc::new(hire));
        self
    }

    /// Whoever works on a plan in a phase, if they can work here.
    pub(super) fn member(&self, plan: &Plan, phase: Phase) -> Option<Arc<dyn Actor>> {
        let name = plan.actor_in(phase)?;
        if let Some(actor) = self.own.get(name) {
            return Some(Arc::clone(actor));
        }
        let hire = self.hire.as_ref()?;
        plan.definition(name).map(|definition| hire(definition))
    }
}
