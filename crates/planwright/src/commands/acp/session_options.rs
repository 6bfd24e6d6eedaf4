//! What an editor can choose for a session: the agent and the profile of its plan.

use api::plan_config::PlanConfig;
use api::plans::CreatePlanError;
use plan::{Plan, Profile, QualifiedName};
use serde_json::{Value, json};

use super::connection::RequestFailure;
use crate::error::CommandError;

/// Profiles that an agent may start plans under. A person lands what it makes.
const OFFERED_PROFILES: [Profile; 3] = [Profile::Review, Profile::Supervised, Profile::Manual];

const AGENT_OPTION: &str = "agent";
const PROFILE_OPTION: &str = "profile";

/// The value of the agent option while none is chosen.
const NO_AGENT: &str = "";

/// The choices of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionOptions {
    /// Names of agents that can be chosen.
    agents: Vec<String>,
    /// `None` if several are available and no setting names one.
    agent: Option<QualifiedName>,
    profile: Profile,
    is_agent_chosen: bool,
    is_profile_chosen: bool,
}

impl SessionOptions {
    /// The choices for a new plan. Fails if there is no agent.
    pub fn for_new_plan(config: &PlanConfig) -> Result<Self, CommandError> {
        let available = config.actors.available_names(&config.repository.actors);
        let agent = match (config.default_actor(), available.as_slice()) {
            (Some(name), _) => Some(name.clone()),
            (None, []) => return Err(CreatePlanError::NoActorInstalled.into()),
            (None, [only]) => Some(only.clone()),
            (None, [_, ..]) => None,
        };
        let profile = config.default_profile().map(|(profile, _)| profile);
        Ok(Self {
            agents: list_names(&available, agent.as_ref()),
            agent,
            profile: to_offered(profile.unwrap_or_default()),
            is_agent_chosen: false,
            is_profile_chosen: false,
        })
    }

    /// What a plan was started with.
    pub fn of_plan(plan: &Plan) -> Self {
        let agent = plan.actors().execution.clone();
        Self {
            agents: vec![agent.to_string()],
            agent: Some(agent),
            profile: to_offered(plan.profile()),
            is_agent_chosen: true,
            is_profile_chosen: true,
        }
    }

    /// The agent that was chosen here. Otherwise the settings at the time decide.
    pub fn chosen_agent(&self) -> Option<QualifiedName> {
        self.agent.clone().filter(|_| self.is_agent_chosen)
    }

    /// The profile to start a plan under, unless the settings decide.
    pub fn chosen_profile(&self, by_settings: Option<Profile>) -> Option<Profile> {
        let by_settings = by_settings.unwrap_or_default();
        let is_offered = to_offered(by_settings) == by_settings;
        (self.is_profile_chosen || !is_offered).then_some(self.profile)
    }

    /// Changes an option. Returns whether it was another value before.
    pub fn set(&mut self, option: &str, value: &str) -> Result<bool, RequestFailure> {
        let before = self.clone();
        match option {
            AGENT_OPTION => {
                let name = self.agents.iter().find(|name| *name == value);
                let name = name.and_then(|name| name.parse().ok());
                let name = name.ok_or_else(|| {
                    RequestFailure::invalid_params(format!(
                        "Unknown agent `{value}`. Choose one of: {}.",
                        self.agents.join(", ")
                    ))
                })?;
                self.agent = Some(name);
                self.is_agent_chosen = true;
            }
            PROFILE_OPTION => {
                let mut offered = OFFERED_PROFILES.into_iter();
                let profile = offered.find(|profile| profile.as_str() == value);
                self.profile = profile.ok_or_else(|| {
                    let names = OFFERED_PROFILES.map(Profile::as_str).join(", ");
                    RequestFailure::invalid_params(format!(
                        "An editor cannot start plans under profile `{value}`. Choose one of: {names}."
                    ))
                })?;
                self.is_profile_chosen = true;
            }
            other => {
                return Err(RequestFailure::invalid_params(format!(
                    "Unknown option `{other}`."
                )));
            }
        }
        Ok((&before.agent, before.profile) != (&self.agent, self.profile))
    }

    pub fn set_mode(&mut self, mode: &str) -> Result<bool, RequestFailure> {
        self.set(PROFILE_OPTION, mode)
    }

    /// The options as editors read them.
    pub fn to_config_options(&self) -> Value {
        let chosen = self.agent.as_ref().map(ToString::to_string);
        let mut agents: Vec<Value> = Vec::new();
        if chosen.is_none() {
            agents.push(json!({ "value": NO_AGENT, "name": "Choose an agent" }));
        }
        let names = self.agents.iter();
        agents.extend(names.map(|name| json!({ "value": name, "name": name })));
        let profiles = OFFERED_PROFILES.map(|profile| {
            json!({
                "value": profile.as_str(),
                "name": profile.as_str(),
                "description": profile.description(),
            })
        });
        json!([
            {
                "type": "select",
                "id": AGENT_OPTION,
                "name": "Agent",
                "description": "Who does the work",
                "currentValue": chosen.as_deref().unwrap_or(NO_AGENT),
                "options": agents,
            },
            {
                "type": "select",
                "id": PROFILE_OPTION,
                "name": "Profile",
                "description": "Where the plan stops and asks you",
                "category": "mode",
                "currentValue": self.profile.as_str(),
                "options": profiles,
            },
        ])
    }

    /// The profiles as modes, for editors that have no options.
    pub fn to_modes(&self) -> Value {
        let modes = OFFERED_PROFILES.map(|profile| {
            json!({
                "id": profile.as_str(),
                "name": profile.as_str(),
                "description": profile.description(),
            })
        });
        json!({ "currentModeId": self.profile.as_str(), "availableModes": modes })
    }

    pub fn profile_name(&self) -> &'static str {
        self.profile.as_str()
    }
}

/// The profile itself if an agent may use it, else the one with the most freedom that it may use.
fn to_offered(profile: Profile) -> Profile {
    match OFFERED_PROFILES.contains(&profile) {
        true => profile,
        false => Profile::Review,
    }
}

fn list_names(available: &[QualifiedName], agent: Option<&QualifiedName>) -> Vec<String> {
    let mut names: Vec<String> = available.iter().map(ToString::to_string).collect();
    // A setting may name an agent that is used only if it is named.
    if let Some(agent) = agent.map(ToString::to_string)
        && !names.contains(&agent)
    {
        names.push(agent);
    }
    names
}

#[cfg(test)]
mod tests {
    use api::actors::ActorCatalog;
    use api::plan_config::PlanDefaults;
    use plan::ActorDefinition;

    use super::*;

    fn config_with(agents: &[&str], profile: Option<Profile>) -> PlanConfig {
        let definition = |name: &&str| -> ActorDefinition {
            let text = format!("name: {name}\nkind: human\n");
            crate::yaml::parse_actor(&text, "test").unwrap()
        };
        PlanConfig {
            user: PlanDefaults {
                profile,
                ..PlanDefaults::default()
            },
            actors: ActorCatalog {
                own: agents.iter().map(definition).collect(),
                ..ActorCatalog::default()
            },
            ..PlanConfig::default()
        }
    }

    #[test]
    fn profile_auto_is_neither_offered_nor_inherited() {
        let config = config_with(&["bo"], Some(Profile::Auto));
        let mut options = SessionOptions::for_new_plan(&config).unwrap();
        assert_eq!(
            options.chosen_profile(Some(Profile::Auto)),
            Some(Profile::Review)
        );
        assert_eq!(options.chosen_profile(Some(Profile::Manual)), None);
        let refused = options.set_mode("auto").unwrap_err();
        assert!(
            refused.message.contains("review, supervised, manual"),
            "{refused:?}"
        );
        assert!(!options.to_config_options().to_string().contains("\"auto\""));
        assert_eq!(options.set_mode("review"), Ok(false));
        assert_eq!(options.set_mode("manual"), Ok(true));
        assert_eq!(options.chosen_profile(None), Some(Profile::Manual));
    }

    #[test]
    fn of_several_agents_none_is_chosen_silently() {
        let config = config_with(&["bo", "cy"], None);
        let mut options = SessionOptions::for_new_plan(&config).unwrap();
        assert_eq!(options.to_config_options()[0]["currentValue"], "");
        assert_eq!(options.chosen_agent(), None);
        assert!(options.set("agent", "di").is_err());
        assert!(options.set("agent", "").is_err());
        assert_eq!(options.set("agent", "cy"), Ok(true));
        assert_eq!(options.to_config_options()[0]["currentValue"], "cy");
        assert_eq!(options.chosen_agent(), Some("cy".parse().unwrap()));
        let none = SessionOptions::for_new_plan(&config_with(&[], None));
        assert!(none.unwrap_err().message.contains("No agent"));
    }
}
