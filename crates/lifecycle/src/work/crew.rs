//! The crew: who can work here.

use std::collections::BTreeMap;
use std::sync::Arc;

use actors::Actor;
use plan::{ActorDefinition, Phase, Plan, QualifiedName};

/// Makes an actor of a definition that was frozen into a plan.
type ActorFactory = dyn Fn(&ActorDefinition) -> Arc<dyn Actor> + Send + Sync;

/// Who can work: actors of this program, and whoever can be started by a plan's definitions.
#[derive(Clone, Default)]
pub struct ActorSet {
    built_in: BTreeMap<QualifiedName, Arc<dyn Actor>>,
    make_actor: Option<Arc<ActorFactory>>,
}

impl ActorSet {
    /// With an actor of this program. It comes before what a plan's definition says of the name.
    #[must_use]
    pub fn with_actor(mut self, name: QualifiedName, actor: impl Actor + 'static) -> Self {
        self.built_in.insert(name, Arc::new(actor));
        self
    }

    /// With everybody that plans define.
    #[must_use]
    pub fn with_factory(
        mut self,
        make_actor: impl Fn(&ActorDefinition) -> Arc<dyn Actor> + Send + Sync + 'static,
    ) -> Self {
        self.make_actor = Some(Arc::new(make_actor));
        self
    }

    /// Whoever works on a plan in a phase, if they can work here.
    pub(super) fn find_actor(&self, plan: &Plan, phase: Phase) -> Option<Arc<dyn Actor>> {
        let name = plan.actor_for_phase(phase)?;
        if let Some(actor) = self.built_in.get(name) {
            return Some(Arc::clone(actor));
        }
        let make_actor = self.make_actor.as_ref()?;
        plan.actor_definition(name)
            .map(|definition| make_actor(definition))
    }
}
