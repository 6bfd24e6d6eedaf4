//! Runs engine calls on threads that may block, a bounded number at once.

use std::sync::Arc;

use api::plan_config::PlanConfig;
use lifecycle::{Call, Lifecycle};
use plan::{Caller, PlanId, PlanVersion, QualifiedName};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::failure::{DescribeFailure, EngineFailure, ReadPlanConfig};
use crate::limits::ServerLimits;
use crate::problem::Problem;

/// The engine, as the routes see it.
#[derive(Clone)]
pub struct EngineAccess {
    lifecycle: Lifecycle,
    caller: Caller,
    failures: Arc<dyn DescribeFailure>,
    configs: Arc<dyn ReadPlanConfig>,
    slots: Arc<Semaphore>,
    limits: ServerLimits,
}

/// The engine and who looks at it, for reads that render pages.
pub struct EngineView<'a> {
    pub lifecycle: &'a Lifecycle,
    pub viewer: &'a Caller,
    configs: &'a dyn ReadPlanConfig,
}

impl EngineView<'_> {
    /// Reads what new plans of these projects inherit.
    pub fn read_plan_config(
        &self,
        projects: &[QualifiedName],
    ) -> Result<PlanConfig, EngineFailure> {
        let config = self.configs.read_plan_config(self.lifecycle, projects);
        config.map_err(EngineFailure::Described)
    }
}

/// The conditions of a change: the expected version and the idempotency key.
#[derive(Debug, Clone)]
pub struct WriteConditions {
    pub if_version: Option<PlanVersion>,
    pub key: String,
}

impl EngineAccess {
    pub fn new(
        lifecycle: Lifecycle,
        caller: Caller,
        failures: Arc<dyn DescribeFailure>,
        configs: Arc<dyn ReadPlanConfig>,
        limits: ServerLimits,
    ) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(limits.max_engine_calls)),
            lifecycle,
            caller,
            failures,
            configs,
            limits,
        }
    }

    /// Finds the plan that a handle in a URL names.
    pub async fn resolve_plan(&self, handle: &str) -> Result<PlanId, Problem> {
        if let Ok(plan_id) = handle.to_ascii_uppercase().parse() {
            return Ok(plan_id);
        }
        let handle = handle.to_owned();
        self.read("status", None, move |lifecycle| {
            Ok(lifecycle.resolve_handle(&handle)?)
        })
        .await
    }

    /// Runs a read. `operation` is the command that shows the same.
    pub async fn read<T: Send + 'static>(
        &self,
        operation: &'static str,
        plan_id: Option<PlanId>,
        read: impl FnOnce(&Lifecycle) -> Result<T, EngineFailure> + Send + 'static,
    ) -> Result<T, Problem> {
        let late = || {
            Problem::new(
                axum::http::StatusCode::GATEWAY_TIMEOUT,
                "timed_out",
                "Reading took too long.",
            )
        };
        let result = self.run_call(late, read).await?;
        result.map_err(|failure| self.describe(failure, operation, plan_id, None))
    }

    /// Runs a read that depends on who looks.
    pub async fn view<T: Send + 'static>(
        &self,
        operation: &'static str,
        plan_id: Option<PlanId>,
        view: impl FnOnce(EngineView<'_>) -> Result<T, EngineFailure> + Send + 'static,
    ) -> Result<T, Problem> {
        let (viewer, configs) = (self.caller.clone(), Arc::clone(&self.configs));
        self.read(operation, plan_id, move |lifecycle| {
            view(EngineView {
                lifecycle,
                viewer: &viewer,
                configs: configs.as_ref(),
            })
        })
        .await
    }

    /// Where changes read what new plans inherit.
    pub fn configs(&self) -> Arc<dyn ReadPlanConfig> {
        Arc::clone(&self.configs)
    }

    /// Runs a change. If its answer takes too long, the change may still happen: the key makes it safe to repeat.
    pub async fn write<T: Send + 'static>(
        &self,
        operation: &'static str,
        plan_id: Option<PlanId>,
        conditions: &WriteConditions,
        write: impl FnOnce(&Lifecycle, &Call) -> Result<T, EngineFailure> + Send + 'static,
    ) -> Result<T, Problem> {
        let mut call = Call::by(self.caller.clone()).with_key(&conditions.key);
        if let Some(version) = conditions.if_version {
            call = call.if_version(version);
        }
        let late = || Problem::unknown_outcome(&conditions.key);
        let result = self
            .run_call(late, move |lifecycle| write(lifecycle, &call))
            .await?;
        result.map_err(|failure| self.describe(failure, operation, plan_id, Some(&conditions.key)))
    }

    async fn run_call<T: Send + 'static>(
        &self,
        late: impl FnOnce() -> Problem,
        call: impl FnOnce(&Lifecycle) -> Result<T, EngineFailure> + Send + 'static,
    ) -> Result<Result<T, EngineFailure>, Problem> {
        let slot = Arc::clone(&self.slots).acquire_owned();
        let slot = match timeout(self.limits.engine_queue_timeout, slot).await {
            Ok(Ok(slot)) => slot,
            Ok(Err(_)) | Err(_) => return Err(Problem::overloaded()),
        };
        let lifecycle = self.lifecycle.clone();
        let running = tokio::task::spawn_blocking(move || {
            // Released when the call ends, even if nobody waits for it any more.
            let _slot = slot;
            call(&lifecycle)
        });
        match timeout(self.limits.engine_timeout, running).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(_)) => Err(Problem::new(
                axum::http::StatusCode::INTERNAL_SERVER_ERROR,
                "internal",
                "The engine failed unexpectedly; this is a bug in Planwright.",
            )),
            Err(_) => Err(late()),
        }
    }

    fn describe(
        &self,
        failure: EngineFailure,
        operation: &str,
        plan_id: Option<PlanId>,
        key: Option<&str>,
    ) -> Problem {
        Problem::from_failure(failure, plan_id, key, |failure| {
            self.failures.describe(failure, operation, plan_id)
        })
    }
}
