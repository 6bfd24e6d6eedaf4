//! Results stay complete: in parts of parts, after a repository moved, after directories were deleted.

use crate::yard::Yard;

impl Yard {
    /// A result with three changed paths, handed in.
    fn three_changes(&self) -> String {
        self.handed_in(|sandbox| {
            for (path, text) in [("p1", "one\n"), ("p2", "two\n"), ("p3", "three\n")] {
                std::fs::write(sandbox.join(path), text).unwrap();
            }
        })
    }
}

#[test]
fn the_rest_of_a_partial_apply_can_be_applied_in_part() {
    let yard = Yard::new();
    let plan = yard.three_changes();
    let landed = yard.ok(&["apply", &plan, "--yes", "--", "p1"]);
    let rest = landed["rest"].as_str().unwrap().to_owned();
    let shown = yard.ok(&["diff", &rest, "--", "p2"]);
    assert_eq!(shown["resources"][0]["files"][0]["path"], "p2");
    let landed = yard.ok(&["apply", &rest, "--yes", "--", "p2"]);
    assert_eq!(yard.read("p2"), "two\n");
    assert!(!yard.shop().join("p3").exists());
    let last = landed["rest"].as_str().unwrap().to_owned();
    yard.bad(3, &["apply", &last, "--yes", "--", "p1"], "p1");
    yard.ok(&["apply", &last, "--yes", "--", "p3"]);
    assert_eq!(yard.read("p3"), "three\n");
    assert_eq!(yard.git(&["rev-list", "--count", "HEAD"]), "4");
    yard.assert_tidy();
}

#[test]
fn a_result_is_shown_and_landed_after_its_repository_moved() {
    let yard = Yard::new();
    let plan = yard.usual();
    let elsewhere = yard.move_shop("else where:\"there\"");
    yard.ok(&["project", "relink", "shop", "shop", "--git", &elsewhere]);
    let shown = yard.ok(&["diff", &plan]);
    assert_eq!(shown["resources"][0]["files"][0]["path"], "new.txt");
    // Nothing was written by looking.
    let said = yard.run(&["diff", &plan, "--patch"]);
    assert!(
        said.data()["resources"][0]["patch"]
            .to_string()
            .contains("+SIX")
    );
    yard.ok(&["apply", &plan, "--yes"]);
    let landed = std::path::Path::new(&elsewhere).join("src/a.txt");
    assert!(std::fs::read_to_string(landed).unwrap().ends_with("SIX\n"));
}

/// Relinked to a repository that lacks what the result is based on: neither shown nor landed.
#[test]
fn what_cannot_be_shown_does_not_land() {
    let yard = Yard::new();
    let plan = yard.usual();
    yard.move_shop("elsewhere");
    let other = yard.new_repository("other");
    yard.ok(&["project", "relink", "shop", "shop", "--git", &other]);
    yard.bad(3, &["diff", &plan], "another repository");
    yard.bad(3, &["apply", &plan, "--yes"], "another repository");
    assert_eq!(yard.state_of(&plan), "execute/complete");
    let said = yard.run(&["approve", &plan]);
    assert_eq!(said.code(), Some(3), "{said:?}");
}

#[test]
fn work_goes_on_in_the_same_sandbox_after_its_repository_moved() {
    let yard = Yard::new();
    let plan = yard.usual();
    let elsewhere = yard.move_shop("elsewhere");
    yard.ok(&["project", "relink", "shop", "shop", "--git", &elsewhere]);
    yard.ok(&["revise", &plan, "more"]);
    let claimed = yard.ok(&["plumbing", "start-execute", &plan, "--owner", "bot"]);
    let sandbox = std::path::Path::new(claimed["sandboxes"][0]["path"].as_str().unwrap());
    // The agent's own git finds every object again.
    assert_eq!(
        crate::yard::git_in(sandbox, &["log", "--format=%s"]),
        "start"
    );
    assert_eq!(
        crate::yard::git_in(sandbox, &["diff", "--name-only"]),
        "src/a.txt"
    );
    std::fs::write(sandbox.join("more.txt"), "more\n").unwrap();
    let epoch = claimed["epoch"].to_string();
    yard.ok(&["plumbing", "complete-execute", &plan, "--epoch", &epoch]);
    yard.ok(&["apply", &plan, "--yes"]);
    assert!(std::path::Path::new(&elsewhere).join("more.txt").exists());
}
