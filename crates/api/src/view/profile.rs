//! Views of automation profiles.

use std::collections::BTreeMap;

use plan::Profile;
use plan::profile::AutomationStep;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct ProfileView {
    pub name: Profile,
    pub description: &'static str,
    /// Whether each step happens without a person.
    pub by_itself: BTreeMap<AutomationStep, bool>,
    /// An approval still counts if the target moved and the result was merged with it.
    pub approval_survives_merge: bool,
}

impl From<Profile> for ProfileView {
    fn from(profile: Profile) -> Self {
        let steps = AutomationStep::ALL.into_iter();
        Self {
            name: profile,
            description: profile.description(),
            by_itself: steps
                .map(|step| (step, profile.allows_unattended(step)))
                .collect(),
            approval_survives_merge: profile.approval_survives_merge(),
        }
    }
}

/// All profiles.
#[derive(Debug, Serialize)]
pub struct ProfileListView {
    pub profiles: Vec<ProfileView>,
    /// The user's default.
    pub chosen: Profile,
}

impl ProfileListView {
    pub fn new(chosen: Profile) -> Self {
        Self {
            profiles: Profile::ALL.into_iter().map(ProfileView::from).collect(),
            chosen,
        }
    }
}
