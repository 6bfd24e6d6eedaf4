//! What a new plan inherits: from its repositories' `planwright.yaml`, the user's settings and the agents of
//! this host. Whoever creates a plan reads these and passes them in; this crate reads no file.

use std::path::PathBuf;

use plan::action::ActionDefinition;
use plan::plan::{PlanLimits, ProfileSource};
use plan::{ActorDefinition, Money, Profile, QualifiedName, RepositoryPolicy, Span};
use serde::Deserialize;

use crate::actors::ActorCatalog;

/// The time limit of one run if none is set. Without it, an agent that hangs would hold its plan forever.
const DEFAULT_RUN_TIMEOUT: Span = Span::from_seconds(3600);

/// Everything a new plan inherits. Flags and the action rank above all of it.
#[derive(Debug, Clone, Default)]
pub struct PlanConfig {
    /// Ranks above the repository: environment variables.
    pub environment: PlanDefaults,
    pub repository: RepositoryConfig,
    /// Ranks below the repository: the user's settings.
    pub user: PlanDefaults,
    pub actors: ActorCatalog,
}

/// Defaults for new plans from one source.
#[derive(Debug, Clone, Default)]
pub struct PlanDefaults {
    pub actor: Option<QualifiedName>,
    pub profile: Option<Profile>,
    pub limits: LimitOverrides,
}

/// The merged `planwright.yaml` of all repositories of a plan.
#[derive(Debug, Clone, Default)]
pub struct RepositoryConfig {
    pub policy: RepositoryPolicy,
    pub defaults: PlanDefaults,
    pub actors: Vec<ActorDefinition>,
    pub actions: Vec<RepositoryAction>,
}

/// An action that a repository defines.
#[derive(Debug, Clone, PartialEq)]
pub struct RepositoryAction {
    pub definition: ActionDefinition,
    /// The `planwright.yaml` that defines it.
    pub file: PathBuf,
}

impl PlanConfig {
    pub fn default_actor(&self) -> Option<&QualifiedName> {
        let layers = [&self.environment, &self.repository.defaults, &self.user];
        layers.into_iter().find_map(|layer| layer.actor.as_ref())
    }

    /// Returns the default profile and where it comes from.
    pub fn default_profile(&self) -> Option<(Profile, ProfileSource)> {
        let layers = [
            (self.environment.profile, ProfileSource::User),
            (self.repository.defaults.profile, ProfileSource::Repository),
            (self.user.profile, ProfileSource::User),
        ];
        let mut chosen = layers
            .into_iter()
            .filter_map(|(profile, source)| Some((profile?, source)));
        chosen.next()
    }

    /// Resolves each limit separately.
    pub fn resolve_limits(&self, requested: LimitOverrides) -> PlanLimits {
        requested
            .or(self.environment.limits)
            .or(self.repository.defaults.limits)
            .or(self.user.limits)
            .with_defaults()
    }
}

/// Limits from one source. `None` leaves a limit to the next source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitOverrides {
    /// Attempts per phase.
    pub attempts: Option<u32>,
    /// Time limit of one run.
    pub timeout: Option<Span>,
    /// Cost of all runs together.
    pub cost: Option<Money>,
    /// Tokens of all runs together.
    pub tokens: Option<u64>,
    /// Time of all runs together.
    pub time: Option<Span>,
}

impl LimitOverrides {
    /// Fills unset limits from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            attempts: self.attempts.or(other.attempts),
            timeout: self.timeout.or(other.timeout),
            cost: self.cost.or(other.cost),
            tokens: self.tokens.or(other.tokens),
            time: self.time.or(other.time),
        }
    }

    /// Fills unset limits with the defaults.
    pub fn with_defaults(self) -> PlanLimits {
        self.apply_to(PlanLimits {
            timeout: Some(DEFAULT_RUN_TIMEOUT),
            ..PlanLimits::default()
        })
    }

    /// Overrides the current limits with those that are set here.
    pub fn apply_to(self, current: PlanLimits) -> PlanLimits {
        PlanLimits {
            attempts: self.attempts.unwrap_or(current.attempts),
            timeout: self.timeout.or(current.timeout),
            cost: self.cost.or(current.cost),
            tokens: self.tokens.or(current.tokens),
            time: self.time.or(current.time),
        }
    }

    pub fn is_any_set(self) -> bool {
        self != Self::default()
    }
}
