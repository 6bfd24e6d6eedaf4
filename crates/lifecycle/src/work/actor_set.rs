//! Looks up the actor for a plan's phase: built-in actors first, then the definitions frozen into the plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use actors::Actor;
use plan::{ActorDefinition, Phase, Plan, QualifiedName};

/// Creates an actor from a definition that is frozen into a plan.
type ActorFactory = dyn Fn(&ActorDefinition) -> Arc<dyn Actor> + Send + Sync;

/// The actors that can run here: those built into this program, and those that plans define.
#[derive(Clone, Default)]
pub struct ActorSet {
    built_in: BTreeMap<QualifiedName, Arc<dyn Actor>>,
    make_actor: Option<Arc<ActorFactory>>,
}

impl ActorSet {
    /// Adds a built-in actor. It takes precedence over a plan's definition of the same name.
    #[must_use]
    pub fn with_actor(mut self, name: QualifiedName, actor: impl Actor + 'static) -> Self {
        self.built_in.insert(name, Arc::new(actor));
        self
    }

    /// Also runs actors that plans define.
    #[must_use]
    pub fn with_factory(
        mut self,
        make_actor: impl Fn(&ActorDefinition) -> Arc<dyn Actor> + Send + Sync + 'static,
    ) -> Self {
        self.make_actor = Some(Arc::new(make_actor));
        self
    }

    /// The actor for a plan's phase, if it can run here.
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
