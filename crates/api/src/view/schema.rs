//! How values of the crates below are described in the OpenAPI document. Nothing makes them: those crates serialize
//! their own types, and know no schemas.

#![allow(
    dead_code,
    reason = "only their shape is used, in the generated document"
)]

use utoipa::ToSchema;

/// A path: text, or its bytes if it is not UTF-8.
#[derive(serde::Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = Path)]
pub enum PathSchema {
    Text(String),
    Bytes(Vec<u8>),
}

/// Hard limits of a plan. A missing limit means unlimited.
#[derive(ToSchema)]
#[schema(as = PlanLimits)]
pub struct PlanLimitsSchema {
    /// Attempts per phase before the plan waits for a person.
    attempts: u32,
    /// Longest single run of an agent.
    timeout_seconds: Option<i64>,
    /// Millionths of a US dollar that all runs together may cost.
    cost_micros: Option<u64>,
    /// Tokens that all runs together may read and write.
    tokens: Option<u64>,
    /// Seconds that all runs together may take.
    time_seconds: Option<i64>,
}

/// How one target moved.
#[derive(ToSchema)]
#[schema(as = RefMove)]
pub struct RefMoveSchema {
    resource: String,
    #[schema(rename = "ref")]
    target: String,
    old: String,
    new: String,
    /// The commit that the result was merged with, if it is not `old`.
    onto: Option<String>,
}

/// A rule that blocks a gate.
#[derive(ToSchema)]
#[schema(as = FailedRule)]
pub struct FailedRuleSchema {
    rule: RuleRefSchema,
    check: String,
    evidence: String,
    waivable: bool,
    /// Set if the rule did not fail but has no verdict yet.
    waits: Option<String>,
    /// The check could not run.
    #[schema(required = false)]
    broken: bool,
}

/// A revision of a rule.
#[derive(ToSchema)]
#[schema(as = RuleRef)]
pub struct RuleRefSchema {
    scope: String,
    name: String,
    revision: u64,
}

/// Ignored files that were found when a result was captured.
#[derive(ToSchema)]
#[schema(as = IgnoredPaths)]
pub struct IgnoredPathsSchema {
    /// In the result, because the agent committed or staged them.
    #[schema(value_type = Option<Object>)]
    forced: Option<()>,
    /// Not in the result, although the agent added them: they existed before the run.
    #[schema(value_type = Option<Object>)]
    withheld: Option<()>,
    /// Created by the agent and left out of the result.
    #[schema(value_type = Option<Object>)]
    left_out: Option<()>,
}

/// How a result lands.
#[derive(ToSchema)]
#[schema(as = LandingOptions)]
pub struct LandingOptionsSchema {
    /// `commit`, `working_tree`, or `branch` with its name.
    #[schema(value_type = Option<Object>)]
    shape: Option<()>,
    #[schema(required = false)]
    merge: bool,
    #[schema(required = false)]
    paths: Vec<String>,
    #[schema(required = false)]
    allow_empty: bool,
    message: Option<String>,
}
