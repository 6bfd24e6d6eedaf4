//! How a result lands, as it is asked for.

use plan::landing_options::LandingDestination;
use plan::{ErasableText, LandingOptions, Plan};
use serde::Deserialize;

/// How a result should land. Without `destination` and `merge`, it lands as the approval or the repository's
/// `planwright.yaml` says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LandingRequest {
    pub destination: Option<LandingDestination>,
    /// Create a merge commit with the plan's own commit as second parent.
    pub merge: bool,
    /// Land even if nothing changes.
    pub allow_empty: bool,
    /// Land only paths that match these patterns; the rest becomes a new plan. Empty lands everything.
    pub paths: Vec<String>,
    /// The message of the commit, instead of the plan's goal.
    pub message: Option<String>,
}

impl LandingRequest {
    /// Resolves the options for a new approval.
    pub fn options_to_approve(&self, plan: &Plan) -> LandingOptions {
        self.resolve(&plan.policy().landing)
    }

    /// Resolves the options for landing a plan, which may be approved already.
    pub fn options_to_land(&self, plan: &Plan) -> LandingOptions {
        self.resolve(default_landing_options(plan))
    }

    fn resolve(&self, defaults: &LandingOptions) -> LandingOptions {
        let is_given = self.destination.is_some() || self.merge;
        let (shape, merge) = match is_given {
            true => (self.destination.clone().unwrap_or_default(), self.merge),
            false => (defaults.shape.clone(), defaults.merge),
        };
        LandingOptions {
            shape,
            merge,
            paths: self.paths.clone(),
            allow_empty: self.allow_empty,
            message: match &self.message {
                Some(message) => Some(ErasableText::from(message.as_str())),
                None => defaults.message.clone(),
            },
        }
    }
}

/// Returns the options to land with if nothing is asked for: those of a standing approval, otherwise the
/// repository's. Options of an approval for one landing count only while that landing is prepared.
pub fn default_landing_options(plan: &Plan) -> &LandingOptions {
    let approval = plan.valid_approval();
    let approval = approval.filter(|approval| !approval.once || plan.is_prepared());
    approval.map_or(&plan.policy().landing, |approval| &approval.options)
}
