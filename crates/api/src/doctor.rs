//! Checks that Planwright can work on this host, and repairs what a crash left.

use std::path::{Path, PathBuf};

use actors::{AgentReadiness, HostEnv};
use lifecycle::{Call, CrashRemnant, LandingOutcome, Lifecycle, LifecycleError};
use plan::{PlanId, QualifiedName};
use sandbox::{GitEnv, IsolationLevel, SandboxError};
use store::{StoreError, StoreInfo};

use crate::actors::{ActorCatalog, DefinitionSource, list_actors};

/// Below this, sandboxes and a local store may fail at any time.
const MIN_FREE_BYTES: u64 = 32 << 20;

/// At most this many expired leases are counted or reclaimed.
const MAX_EXPIRED_LEASES: usize = 100;

/// The result of one check.
#[derive(Debug)]
pub enum DoctorFinding {
    Home {
        path: PathBuf,
        state: HomeState,
    },
    FreeSpace {
        path: PathBuf,
        free_bytes: std::io::Result<u64>,
    },
    /// The installed version, if it is new enough.
    Git(Result<String, SandboxError>),
    /// One of the user's own agents or installed presets.
    Agent(InstalledAgent),
    /// Without an agent, no plan can run.
    NoAgent,
    /// How well agents can be confined here.
    Isolation(IsolationLevel),
    /// The store, which need not exist yet.
    Store(Result<StoreInfo, StoreError>),
    /// Damage in the files of the store.
    StoreDamage(Result<Vec<String>, StoreError>),
    ExpiredLeases(Result<usize, StoreError>),
    /// What crashes left behind.
    CrashRemnants {
        unfinished_landings: usize,
        /// Landed plans with sandboxes that can go.
        leftovers: usize,
    },
}

/// An agent that can be used here.
#[derive(Debug)]
pub struct InstalledAgent {
    pub name: QualifiedName,
    pub readiness: AgentReadiness,
}

/// The state of Planwright's own directory.
#[derive(Debug)]
pub enum HomeState {
    Usable,
    Missing,
    NotADirectory,
    Unreadable(std::io::Error),
    /// Its owner or its file system does not let this user write there.
    NotWritable(std::io::Error),
}

impl DoctorFinding {
    pub fn is_ok(&self) -> bool {
        match self {
            Self::Home { state, .. } => matches!(state, HomeState::Usable | HomeState::Missing),
            Self::FreeSpace { free_bytes, .. } => free_bytes
                .as_ref()
                .is_ok_and(|free| *free >= MIN_FREE_BYTES),
            Self::Git(version) => version.is_ok(),
            Self::Agent(agent) => {
                agent.readiness.missing.is_empty() && !agent.readiness.is_outdated()
            }
            Self::NoAgent => false,
            Self::Isolation(_) => true,
            Self::Store(info) => info.is_ok(),
            Self::StoreDamage(problems) => problems.as_ref().is_ok_and(Vec::is_empty),
            Self::ExpiredLeases(count) => count.is_ok(),
            Self::CrashRemnants {
                unfinished_landings,
                ..
            } => *unfinished_landings == 0,
        }
    }

    /// Returns whether Planwright cannot work at all unless this is in order.
    pub fn is_required(&self) -> bool {
        match self {
            Self::Agent(_) | Self::NoAgent => false,
            Self::Home { .. }
            | Self::FreeSpace { .. }
            | Self::Git(_)
            | Self::Isolation(_)
            | Self::Store(_)
            | Self::StoreDamage(_)
            | Self::ExpiredLeases(_)
            | Self::CrashRemnants { .. } => true,
        }
    }
}

/// Checks the home directory.
pub fn check_home(home: &Path) -> DoctorFinding {
    let state = match std::fs::metadata(home) {
        Ok(found) if found.is_dir() => HomeState::Usable,
        Ok(_) => HomeState::NotADirectory,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => HomeState::Missing,
        Err(error) => HomeState::Unreadable(error),
    };
    let state = match (state, sandbox::check_writable(home)) {
        (HomeState::Usable | HomeState::Missing, Err(error)) => HomeState::NotWritable(error),
        (state, _) => state,
    };
    let path = home.to_owned();
    DoctorFinding::Home { path, state }
}

/// Checks free space, git, agents and isolation.
pub fn check_host(
    home: &Path,
    git_env: &GitEnv,
    catalog: &ActorCatalog,
    host_env: &HostEnv,
) -> Vec<DoctorFinding> {
    let mut findings = vec![
        DoctorFinding::FreeSpace {
            path: home.to_owned(),
            free_bytes: sandbox::free_bytes(home),
        },
        DoctorFinding::Git(sandbox::git_version(git_env)),
    ];
    let agents = find_agents(catalog, host_env);
    if agents.is_empty() {
        findings.push(DoctorFinding::NoAgent);
    }
    findings.extend(agents.into_iter().map(DoctorFinding::Agent));
    findings.push(DoctorFinding::Isolation(sandbox::detect_isolation()));
    findings
}

fn find_agents(catalog: &ActorCatalog, host_env: &HostEnv) -> Vec<InstalledAgent> {
    let known = list_actors(catalog, &[], host_env).into_iter();
    known
        .filter(|one| match one.source {
            DefinitionSource::Preset => one.readiness.program.is_some(),
            DefinitionSource::You | DefinitionSource::Repository => true,
        })
        .map(|one| InstalledAgent {
            name: one.definition.name,
            readiness: one.readiness,
        })
        .collect()
}

/// Checks the store, and looks for what crashes left behind.
pub fn check_store(lifecycle: &Lifecycle) -> Vec<DoctorFinding> {
    let store = lifecycle.store();
    let info = store.read_info();
    let exists = info
        .as_ref()
        .is_ok_and(|info| info.schema_version.is_some());
    if !exists {
        return vec![DoctorFinding::Store(info)];
    }
    let expired = store.list_expired_leases(MAX_EXPIRED_LEASES);
    let mut findings = match expired {
        // A store that cannot be read fails the check even if its files are intact.
        Err(error) => vec![DoctorFinding::Store(Err(error))],
        Ok(expired) => vec![
            DoctorFinding::Store(info),
            DoctorFinding::StoreDamage(store.check_integrity()),
            DoctorFinding::ExpiredLeases(Ok(expired.len())),
        ],
    };
    findings.extend(find_remnants(lifecycle));
    findings
}

/// `None` if the host's plans cannot be read; the other checks say why.
fn find_remnants(lifecycle: &Lifecycle) -> Option<DoctorFinding> {
    let found = lifecycle.sandboxes().find_crash_remnants().ok()?;
    let is_landing = |one: &&CrashRemnant| matches!(one, CrashRemnant::UnfinishedLanding(_));
    let unfinished_landings = found.iter().filter(is_landing).count();
    Some(DoctorFinding::CrashRemnants {
        unfinished_landings,
        leftovers: found.len() - unfinished_landings,
    })
}

/// Something that was repaired.
#[derive(Debug)]
pub enum DoctorRepair {
    StoreMigrated {
        before: u32,
        after: u32,
    },
    LandingEnded {
        plan_id: PlanId,
        outcome: Option<Box<LandingOutcome>>,
    },
    LeftoversRemoved(PlanId),
    LeaseReclaimed(PlanId),
}

/// Migrates the store, finishes what crashes interrupted and reclaims expired leases. `owner` names the process that
/// holds the leases meanwhile.
pub fn repair_host(
    lifecycle: &Lifecycle,
    owner: &str,
    call: &Call,
) -> Result<Vec<DoctorRepair>, LifecycleError> {
    let mut repairs = Vec::new();
    let (before, after) = lifecycle.store().migrate_schema()?;
    if before != after {
        repairs.push(DoctorRepair::StoreMigrated { before, after });
    }
    let remnants = lifecycle.sandboxes().find_crash_remnants()?;
    for (number, remnant) in remnants.iter().enumerate() {
        let owner = format!("{owner}-{number}");
        let outcome = lifecycle
            .sandboxes()
            .recover_remnant(remnant, &owner, call)?;
        repairs.push(match remnant {
            CrashRemnant::UnfinishedLanding(plan_id) => DoctorRepair::LandingEnded {
                plan_id: *plan_id,
                outcome: outcome.map(Box::new),
            },
            CrashRemnant::LeftoverSandboxes(plan_id) => DoctorRepair::LeftoversRemoved(*plan_id),
        });
    }
    let leases = lifecycle.leases();
    let reclaimed = leases.reclaim_expired_leases(MAX_EXPIRED_LEASES, call)?;
    repairs.extend(
        reclaimed
            .iter()
            .map(|plan| DoctorRepair::LeaseReclaimed(plan.id())),
    );
    Ok(repairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nearly_full_disk_fails_the_check() {
        let found = |free| DoctorFinding::FreeSpace {
            path: "/home/ada".into(),
            free_bytes: Ok(free),
        };
        assert!(found(MIN_FREE_BYTES).is_ok());
        assert!(!found(MIN_FREE_BYTES - 1).is_ok());
    }
}
