//! A repository's `planwright.yaml`, out of its tree.

use plan::How;
use plan::how::Shape as Arrival;
use plan::ways::Clean;

use super::fields::{Fields, Shape};
use super::problem::Flaw;
use super::tree::Node;
use super::value::{boolean, is_nothing, list, prose, text};

/// What a repository says about work on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepositoryFile {
    /// A command that makes a new sandbox ready.
    pub setup: Option<String>,
    /// Ignored files to copy into it.
    pub include: Vec<String>,
    /// When sandboxes are removed.
    pub clean: Clean,
    /// How results arrive.
    pub arrival: How,
}

const LATER: &str = "is not yet supported";

static FILE: Shape<'_> = Shape {
    what: "planwright.yaml",
    place: "at the top level",
    keys: &["sandbox", "apply"],
    refused: &[
        (
            "actor",
            LATER,
            "give it with: planwright config set actor NAME",
        ),
        ("actors", LATER, "actions name their actors"),
        (
            "actions",
            LATER,
            "store them with: planwright action create",
        ),
        (
            "invariants",
            LATER,
            "add rules with: planwright invariant add",
        ),
        (
            "profile",
            LATER,
            "give it with: planwright config set profile NAME",
        ),
        ("limits", LATER, "remove the key"),
    ],
    others: &[&SANDBOX, &APPLY],
};

static SANDBOX: Shape<'_> = Shape {
    what: "`sandbox`",
    place: "under `sandbox`",
    keys: &["setup", "include", "clean"],
    refused: &[],
    others: &[&FILE, &APPLY],
};

static APPLY: Shape<'_> = Shape {
    what: "`apply`",
    place: "under `apply`",
    keys: &["as", "merge"],
    refused: &[],
    others: &[&FILE, &SANDBOX],
};

pub(super) fn read(root: &Node) -> Result<RepositoryFile, Flaw> {
    let mut file = RepositoryFile::default();
    if is_nothing(root) {
        return Ok(file);
    }
    let fields = Fields::of(root, &FILE)?;
    fields.optional("sandbox", |node| {
        let fields = Fields::of(node, &SANDBOX)?;
        file.setup = fields.optional("setup", prose)?;
        let include = fields.optional("include", list)?.unwrap_or_default();
        file.include = include.iter().map(prose).collect::<Result<_, _>>()?;
        file.clean = fields.optional("clean", clean)?.unwrap_or_default();
        Ok(())
    })?;
    fields.optional("apply", |node| {
        let fields = Fields::of(node, &APPLY)?;
        file.arrival.shape = fields.optional("as", arrival)?.unwrap_or_default();
        file.arrival.merge = fields.optional("merge", boolean)?.unwrap_or(false);
        if file.arrival.merge && file.arrival.shape != Arrival::Commit {
            return Err(Flaw::new(node.at, "`merge` is for landing as a commit"));
        }
        Ok(())
    })?;
    Ok(file)
}

fn clean(node: &Node) -> Result<Clean, Flaw> {
    match text(node)?.as_str() {
        "on_apply" => Ok(Clean::OnApply),
        "on_terminal" => Ok(Clean::OnTerminal),
        "manual" => Ok(Clean::Manual),
        _ => Err(Flaw::new(
            node.at,
            "expected on_apply, on_terminal or manual",
        )),
    }
}

fn arrival(node: &Node) -> Result<Arrival, Flaw> {
    match text(node)?.as_str() {
        "commit" => Ok(Arrival::Commit),
        "uncommitted" => Ok(Arrival::Uncommitted),
        _ => Err(Flaw::new(node.at, "expected commit or uncommitted")
            .hint("a new branch is named when it is landed: planwright apply ID --as branch NAME")),
    }
}
