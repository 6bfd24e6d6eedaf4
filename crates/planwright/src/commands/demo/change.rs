//! The demo's chapters with a repository: work in a sandbox, land the change, undo it.

use std::path::Path;

use lifecycle::{LandingOutcome, Lifecycle, UseRequest};
use plan::landing_options::LandingOptions;
use plan::project::{Resource, ResourcePlace};
use plan::stage::ResultContent;
use plan::{PlanActors, PlanId, QualifiedName, Span};
use sandbox::{DiffFormat, create_demo_repository, locate_git_repository};

use super::{DemoRun, defect_error};
use crate::error::CommandError;
use crate::{host, settings, ui};

/// The files of the demo's repository.
const REPOSITORY_FILES: &[(&str, &str)] = &[
    ("README.md", "# The demo's shop\n"),
    ("billing.txt", "apples   3\npears    5\n"),
];

fn demo_agent() -> Result<QualifiedName, CommandError> {
    let name = "demo-agent".parse();
    name.map_err(|_| defect_error("the name of the demo's agent was refused"))
}

/// `billing.txt` as the demo's agent changes it.
const TIDIED_PRICES: &str = "apples 3\npears  5\n";

impl DemoRun {
    pub(super) fn change_repository(&mut self, home: &Path) -> Result<PlanId, CommandError> {
        self.start_chapter("An agent works in a private copy of your repository");
        let shop = home.join("shop");
        create_demo_repository(&settings::read_git_env(), &shop, REPOSITORY_FILES)
            .map_err(lifecycle::LifecycleError::Sandbox)?;
        let lifecycle = self
            .lifecycle
            .clone()
            .with_local_host(host::open_local_host(home)?);
        let project = self.register_project(&lifecycle, home, &shop)?;
        let lifecycle = self
            .lifecycle
            .clone()
            .with_local_host(host::open_local_host(home)?);
        let request = UseRequest {
            goal: Some("Line the prices up".to_owned()),
            fallback_actors: Some(PlanActors::for_both_phases(demo_agent()?)),
            projects: vec![project],
            ..UseRequest::default()
        };
        let plan = lifecycle.use_action(request, &self.call)?.plan.id();
        let lease = Span::from_seconds(60);
        let claim = lifecycle
            .claims()
            .start_strategize(plan, "demo-agent", lease, &self.call)?;
        claim.complete_strategize(Vec::new())?;
        lifecycle.execute_plan(plan, &self.call)?;
        let claim = lifecycle
            .claims()
            .start_execute(plan, "demo-agent", lease, &self.call)?;
        let sandbox = claim
            .sandboxes()
            .first()
            .ok_or_else(|| defect_error("a plan with a repository has no sandbox"))?;
        self.add_line(format!("sandbox: {}", sandbox.path.display()));
        let file = sandbox.path.join("billing.txt");
        std::fs::write(&file, TIDIED_PRICES).map_err(|error| {
            defect_error(&format!("{} cannot be written: {error}", file.display()))
        })?;
        self.expect_file(
            &shop,
            REPOSITORY_FILES[1].1,
            "the agent changed its copy; yours is untouched",
        )?;
        claim.complete_execute(&ResultContent::default())?;
        self.start_chapter("You see exactly what it changed");
        for diff in lifecycle.sandboxes().view_changes(plan)? {
            let text = diff
                .comparison
                .diff_text(DiffFormat::Patch, &[])
                .map_err(lifecycle::LifecycleError::Sandbox)?;
            for line in String::from_utf8_lossy(&text).lines().skip(4) {
                let style = match line.bytes().next() {
                    Some(b'+') => ui::GOOD,
                    Some(b'-') => ui::BAD,
                    _ => ui::DIM,
                };
                self.add_line(ui::style_text(style, ui::escape_controls(line)));
            }
        }
        self.land_and_undo(&lifecycle, plan, &shop)?;
        Ok(plan)
    }

    fn land_and_undo(
        &mut self,
        lifecycle: &Lifecycle,
        plan_id: PlanId,
        shop: &Path,
    ) -> Result<(), CommandError> {
        self.start_chapter("What you approve lands exactly once, and can be undone");
        let landed = self.land_plan(lifecycle, plan_id, &LandingOptions::default())?;
        self.expect_file(shop, TIDIED_PRICES, &format!("landed on main as {landed}"))?;
        match lifecycle.landing().approve_and_land(
            plan_id,
            &LandingOptions::default(),
            "demo-again",
            &self.call,
        ) {
            Err(error) => self.add_line(format!("apply again: {error}")),
            Ok(_) => return Err(defect_error("a change landed twice")),
        }
        let undone = lifecycle.landing().undo_plan(plan_id, &self.call)?;
        let landed = self.land_plan(lifecycle, undone.plan_id, &undone.options)?;
        self.expect_file(
            shop,
            REPOSITORY_FILES[1].1,
            &format!("undone on main as {landed}"),
        )
    }

    fn land_plan(
        &mut self,
        lifecycle: &Lifecycle,
        plan_id: PlanId,
        options: &LandingOptions,
    ) -> Result<String, CommandError> {
        match lifecycle.landing().approve_and_land(
            plan_id,
            options,
            &format!("demo-{plan_id}"),
            &self.call,
        )? {
            LandingOutcome::Landed { done, .. } => {
                let step = done.plan.landed().first();
                let step = step.ok_or_else(|| defect_error("a landed plan records no landing"))?;
                Ok(step.new.chars().take(10).collect())
            }
            LandingOutcome::Constrained(_)
            | LandingOutcome::NeedsAnswer(_)
            | LandingOutcome::NotLanded(_) => {
                Err(defect_error("a change without conflicts did not land"))
            }
        }
    }

    /// Registers the repository as a project. Repeating it is fine: an earlier demo may have registered it.
    fn register_project(
        &mut self,
        lifecycle: &Lifecycle,
        home: &Path,
        shop: &Path,
    ) -> Result<QualifiedName, CommandError> {
        let place = locate_git_repository(&settings::read_git_env(), shop, None)
            .map_err(lifecycle::LifecycleError::Sandbox)?;
        let resource = Resource {
            name: "shop"
                .parse()
                .map_err(|_| defect_error("a resource's name was refused"))?,
            host: host::register_host(home)?,
            place: ResourcePlace::Git {
                path: place.path.display().to_string(),
                branch: place.branch,
            },
        };
        let name: QualifiedName = "demo/shop"
            .parse()
            .map_err(|_| defect_error("a project's name was refused"))?;
        lifecycle
            .projects()
            .create_project(&name, vec![resource], &self.call)?;
        self.add_line(format!("project {name}: {}", shop.display()));
        Ok(name)
    }

    fn expect_file(&mut self, shop: &Path, expected: &str, line: &str) -> Result<(), CommandError> {
        let content = std::fs::read_to_string(shop.join("billing.txt")).unwrap_or_default();
        if content != expected {
            return Err(defect_error("billing.txt has unexpected content"));
        }
        self.add_line(line);
        Ok(())
    }
}
