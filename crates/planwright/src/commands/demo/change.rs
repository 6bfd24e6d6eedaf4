//! The chapters with a repository: a change travels from a sandbox into it, and back.

use std::path::Path;

use lifecycle::{Driven, Lifecycle, UseRequest};
use plan::how::How;
use plan::project::{Place, Resource};
use plan::stage::ResultContent;
use plan::{Name, PlanId, Span};
use sandbox::{Shape, look_at_git, start_repository};

use super::{Story, broken};
use crate::error::CommandError;
use crate::{host, settings, ui};

/// What the repository of the demo begins with.
const FILES: &[(&str, &str)] = &[
    ("README.md", "# The demo's shop\n"),
    ("billing.txt", "apples   3\npears    5\n"),
];

/// What the agent makes of it.
const TIDIED: &str = "apples 3\npears  5\n";

impl Story {
    pub(super) fn change(&mut self, home: &Path, action: &Name) -> Result<PlanId, CommandError> {
        self.chapter("7. On a repository, the agent works in a private copy");
        let shop = home.join("shop");
        start_repository(&settings::surroundings(), &shop, FILES)
            .map_err(lifecycle::Error::Sandbox)?;
        let lifecycle = self.lifecycle.clone().with_hands(host::hands(home)?);
        let project = self.project(&lifecycle, home, &shop)?;
        let lifecycle = self.lifecycle.clone().with_hands(host::hands(home)?);
        let request = UseRequest {
            action: Some(action.clone()),
            goal: Some("Line the prices up".to_owned()),
            arguments: vec![("area".to_owned(), "billing.txt".to_owned())],
            projects: vec![project],
            ..UseRequest::default()
        };
        let plan = lifecycle.use_action(request, &self.call)?.plan.id;
        let lease = Span::seconds(60);
        let claim = lifecycle.start_strategize(plan, "demo-agent", lease, &self.call)?;
        claim.complete_strategize(Vec::new())?;
        lifecycle.execute_plan(plan, &self.call)?;
        let claim = lifecycle.start_execute(plan, "demo-agent", lease, &self.call)?;
        let sandbox = claim
            .sandboxes()
            .first()
            .ok_or_else(|| broken("a plan with a repository has no sandbox"))?;
        self.say(format!("sandbox: {}", sandbox.path.display()));
        let file = sandbox.path.join("billing.txt");
        std::fs::write(&file, TIDIED)
            .map_err(|error| broken(&format!("{} cannot be written: {error}", file.display())))?;
        self.expect_file(
            &shop,
            FILES[1].1,
            "the agent changed its copy; yours is as it was",
        )?;
        let nothing_said = ResultContent::default();
        claim.complete_execute(&nothing_said)?;
        for looked in lifecycle.look(plan)? {
            let text = looked
                .look
                .text(Shape::Patch, &[])
                .map_err(lifecycle::Error::Sandbox)?;
            for line in String::from_utf8_lossy(&text).lines().skip(4) {
                let style = match line.bytes().next() {
                    Some(b'+') => ui::GOOD,
                    Some(b'-') => ui::BAD,
                    _ => ui::DIM,
                };
                self.say(ui::styled(style, ui::clean(line)));
            }
        }
        self.land(&lifecycle, plan, &shop)?;
        Ok(plan)
    }

    fn land(
        &mut self,
        lifecycle: &Lifecycle,
        plan: PlanId,
        shop: &Path,
    ) -> Result<(), CommandError> {
        self.chapter("8. What you approve lands exactly once, and can be undone");
        let landed = self.landed(lifecycle, plan, &How::default())?;
        self.expect_file(shop, TIDIED, &format!("landed on main as {landed}"))?;
        match lifecycle.apply(plan, &How::default(), "demo-again", &self.call) {
            Err(error) => self.say(format!("apply again: {error}")),
            Ok(_) => return Err(broken("a change landed twice")),
        }
        let undone = lifecycle.undo(plan, &self.call)?;
        let landed = self.landed(lifecycle, undone.plan, &undone.how)?;
        self.expect_file(shop, FILES[1].1, &format!("undone on main as {landed}"))
    }

    fn landed(
        &mut self,
        lifecycle: &Lifecycle,
        plan: PlanId,
        how: &How,
    ) -> Result<String, CommandError> {
        match lifecycle.apply(plan, how, &format!("demo-{plan}"), &self.call)? {
            Driven::Landed { done, .. } => {
                let step = done.plan.landed.first();
                let step = step.ok_or_else(|| broken("what landed is nowhere"))?;
                Ok(step.new.chars().take(10).collect())
            }
            Driven::Constrained(_) | Driven::Asks(_) | Driven::NotLanded(_) => {
                Err(broken("a change that meets no other did not land"))
            }
        }
    }

    /// The repository as a project. It may have been registered by an earlier demo.
    fn project(
        &mut self,
        lifecycle: &Lifecycle,
        home: &Path,
        shop: &Path,
    ) -> Result<Name, CommandError> {
        let place = look_at_git(&settings::surroundings(), shop, None)
            .map_err(lifecycle::Error::Sandbox)?;
        let resource = Resource {
            name: "shop".parse().map_err(|_| broken("a resource's name"))?,
            host: host::register(home)?,
            place: Place::Git {
                path: place.path.display().to_string(),
                branch: place.branch,
            },
        };
        let name: Name = "demo/shop"
            .parse()
            .map_err(|_| broken("a project's name was refused"))?;
        lifecycle.create_project(&name, vec![resource], &self.call)?;
        self.say(format!("project {name}: {}", shop.display()));
        Ok(name)
    }

    fn expect_file(&mut self, shop: &Path, text: &str, says: &str) -> Result<(), CommandError> {
        let there = std::fs::read_to_string(shop.join("billing.txt")).unwrap_or_default();
        if there != text {
            return Err(broken("the repository does not hold what it should"));
        }
        self.say(says);
        Ok(())
    }
}
