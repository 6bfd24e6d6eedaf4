//! Random differences and random picks, against a model that knows which part of a change is which
//! without looking at any diff: the picked tree is the base plus exactly the chosen parts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use plan::HunkId;
use planwright_sandbox::land::SandboxResult;
use planwright_sandbox::{ContentKind, FileChange, HunkPart, ObjectId, SandboxError, TreeDiff};

use crate::fixture::{SandboxFixture, test_plan_id};
use crate::model::ScheduleRandom;

/// With the whole result and the rest of every pick, 1,001 trees are picked by real git.
const CASE_COUNT: u64 = 143;
const PICKS_PER_CASE: usize = 3;
const SLOT_COUNT: usize = 5;

/// Mode and content of each file.
type ModelFiles = BTreeMap<Vec<u8>, (&'static str, Vec<u8>)>;

const PLAIN: &str = "100644";
const PROGRAM: &str = "100755";
const LINK: &str = "120000";

/// A text with places that change, separated by lines that do not.
#[derive(Clone)]
struct ModelText {
    name: Vec<u8>,
    line_end: &'static [u8],
    has_final_line_end: bool,
    slots: [Vec<u8>; SLOT_COUNT],
}

impl ModelText {
    fn new(name: &[u8], random: &mut ScheduleRandom) -> Self {
        let line_end: &[u8] = match random.next_below(3) {
            0 => b"\r\n",
            _ => b"\n",
        };
        let mut text = Self {
            name: name.to_vec(),
            line_end,
            has_final_line_end: random.next_below(3) > 0,
            slots: Default::default(),
        };
        for slot in 0..SLOT_COUNT {
            if random.next_below(4) > 0 {
                text.slots[slot] = text.slot_lines(slot, b"old");
            }
        }
        text
    }

    fn slot_lines(&self, slot: usize, word: &[u8]) -> Vec<u8> {
        let number = slot.to_string();
        let line = [&self.name[..], b" ", number.as_bytes(), b" ", word].concat();
        // Not valid UTF-8.
        let odd = [&line[..], b" \xff\xfe", self.line_end].concat();
        [&line[..], self.line_end, &odd].concat()
    }

    fn render(&self) -> Vec<u8> {
        let mut content = Vec::new();
        for (slot, lines) in self.slots.iter().enumerate() {
            for kept in 0..4 {
                let line = format!(" stays {slot}.{kept}");
                content.extend([&self.name[..], line.as_bytes(), self.line_end].concat());
            }
            content.extend(lines);
        }
        // The last slot ends the text, so that a line may lose or gain its end.
        if !self.has_final_line_end {
            content.truncate(content.len() - self.line_end.len());
        }
        content
    }
}

/// One part of a change: what it does to the files, knowing which other parts are chosen.
#[derive(Clone)]
enum ModelPart {
    Slot {
        path: Vec<u8>,
        slot: usize,
        lines: Vec<u8>,
    },
    Mode {
        path: Vec<u8>,
        mode: &'static str,
    },
    /// Removes paths and writes others.
    Whole {
        removed: Vec<Vec<u8>>,
        written: ModelFiles,
    },
}

struct ModelDifference {
    texts: BTreeMap<Vec<u8>, ModelText>,
    base: ModelFiles,
    parts: Vec<ModelPart>,
}

impl ModelDifference {
    fn new(random: &mut ScheduleRandom) -> Self {
        let mut change = Self {
            texts: BTreeMap::new(),
            base: ModelFiles::new(),
            parts: Vec::new(),
        };
        for number in 0..3 + random.next_below(8) {
            change.add_file(number, random);
        }
        change
    }

    fn add_file(&mut self, number: usize, random: &mut ScheduleRandom) {
        let directory: &[u8] = match random.next_below(3) {
            0 => b"",
            1 => b"src/",
            _ => b"src/\xe9t\xe9 and [more]*/",
        };
        let name = format!("file-{number}");
        let path = [directory, name.as_bytes()].concat();
        let whole = |removed: &[&[u8]], written: Vec<(Vec<u8>, &'static str, Vec<u8>)>| {
            let written = written
                .into_iter()
                .map(|(path, mode, content)| (path, (mode, content)));
            ModelPart::Whole {
                removed: removed.iter().map(|path| path.to_vec()).collect(),
                written: written.collect(),
            }
        };
        let content = |word: &str| format!("{name} is {word}\n").into_bytes();
        let binary = |word: &str| format!("{name}\0{word}").into_bytes();
        let below = [&path[..], b"/inside"].concat();
        let moved = [b"moved/", name.as_bytes()].concat();
        match random.next_below(12) {
            0 => {
                let created = vec![(path, PLAIN, content("new"))];
                self.parts.push(whole(&[], created));
            }
            1 => {
                self.base.insert(path.clone(), (PLAIN, content("old")));
                self.parts.push(whole(&[&path], Vec::new()));
            }
            2 => {
                let text = ModelText::new(&path, random).render();
                self.base.insert(path.clone(), (PLAIN, text.clone()));
                // A rename with an edit is one part too.
                let edited = match random.next_below(2) {
                    0 => text,
                    _ => [&text[..], b"\nedited\n"].concat(),
                };
                self.parts
                    .push(whole(&[&path], vec![(moved, PLAIN, edited)]));
            }
            3 => {
                self.base.insert(path.clone(), (PLAIN, binary("old")));
                self.parts
                    .push(whole(&[], vec![(path, PLAIN, binary("new"))]));
            }
            4 => {
                self.base.insert(path.clone(), (LINK, content("old")));
                self.parts
                    .push(whole(&[], vec![(path, LINK, content("new"))]));
            }
            5 => {
                self.base.insert(path.clone(), (PLAIN, content("old")));
                self.parts
                    .push(whole(&[], vec![(path, LINK, b"elsewhere".to_vec())]));
            }
            6 => {
                self.base.insert(path.clone(), (PLAIN, content("old")));
                let second = [&path[..], b"/second"].concat();
                let files = vec![
                    (below, PLAIN, content("inside")),
                    (second, PROGRAM, content("beside")),
                ];
                self.parts.push(whole(&[&path], files));
            }
            7 => {
                self.base.insert(below.clone(), (PLAIN, content("inside")));
                self.parts
                    .push(whole(&[&below], vec![(path, PLAIN, content("flat"))]));
            }
            8 => {
                // Nothing changes here.
                self.base.insert(path, (PLAIN, content("kept")));
            }
            _ => self.add_text(path, random),
        }
    }

    fn add_text(&mut self, path: Vec<u8>, random: &mut ScheduleRandom) {
        let text = ModelText::new(&path, random);
        let mode = if random.next_below(2) == 0 {
            PLAIN
        } else {
            PROGRAM
        };
        self.base.insert(path.clone(), (mode, text.render()));
        if random.next_below(4) == 0 {
            let mode = if mode == PLAIN { PROGRAM } else { PLAIN };
            self.parts.push(ModelPart::Mode {
                path: path.clone(),
                mode,
            });
        }
        for slot in 0..SLOT_COUNT {
            let lines = match random.next_below(4) {
                0 => text.slot_lines(slot, b"new"),
                1 => Vec::new(),
                _ => continue,
            };
            if lines != text.slots[slot] {
                self.parts.push(ModelPart::Slot {
                    path: path.clone(),
                    slot,
                    lines,
                });
            }
        }
        self.texts.insert(path, text);
    }

    /// The base with these parts.
    fn apply(&self, chosen: impl Fn(usize) -> bool) -> ModelFiles {
        let mut files = self.base.clone();
        let mut texts = self.texts.clone();
        let parts = self.parts.iter().enumerate();
        for (_, part) in parts.filter(|(number, _)| chosen(*number)) {
            match part {
                ModelPart::Slot { path, slot, lines } => {
                    let text = texts.get_mut(path).unwrap();
                    text.slots[*slot].clone_from(lines);
                    files.get_mut(path).unwrap().1 = text.render();
                }
                ModelPart::Mode { path, mode } => files.get_mut(path).unwrap().0 = mode,
                ModelPart::Whole { removed, written } => {
                    files.retain(|path, _| !removed.contains(path));
                    files.extend(written.clone());
                }
            }
        }
        files
    }

    /// The hunk of each part.
    fn match_hunks(&self, changes: &[FileChange]) -> Vec<HunkId> {
        let mut taken: BTreeMap<&[u8], usize> = BTreeMap::new();
        let find = |path: &[u8]| {
            let mut found = changes.iter();
            let found = found.find(|change| change.path.as_bytes() == path);
            found.unwrap_or_else(|| panic!("{} changes", path.escape_ascii()))
        };
        let parts = self.parts.iter();
        parts
            .map(|part| match part {
                ModelPart::Slot { path, .. } => {
                    // Slots and regions are in the order of the text.
                    let number = taken.entry(path).or_default();
                    let hunk = hunk_of(find(path), HunkPart::Region(*number));
                    *number += 1;
                    hunk
                }
                ModelPart::Mode { path, .. } => hunk_of(find(path), HunkPart::Mode),
                ModelPart::Whole { removed, written } => {
                    let path = written.keys().next().unwrap_or_else(|| &removed[0]);
                    hunk_of(find(path), HunkPart::Whole)
                }
            })
            .collect()
    }
}

fn hunk_of(change: &FileChange, part: HunkPart) -> HunkId {
    let mut hunks = change.hunks.iter();
    let hunk = hunks.find(|hunk| hunk.part == part);
    hunk.unwrap_or_else(|| panic!("no {part:?} in {change:?}"))
        .id
}

/// A repository whose commits are made of model files.
struct PickFixture {
    fixture: SandboxFixture,
}

impl PickFixture {
    fn new() -> Self {
        let fixture = SandboxFixture::new_empty_in_memory();
        fixture.run_git(&["init", "-q", "-b", "main", "."]);
        fixture.write_file("start", "start\n");
        fixture.commit_all("start");
        Self { fixture }
    }

    fn write_commit(&self, files: &ModelFiles, branch: &str) -> ObjectId {
        let mut script = format!(
            "commit refs/heads/{branch}\ncommitter A <a@b> 1700000000 +0000\ndata 0\ndeleteall\n"
        )
        .into_bytes();
        for (path, (mode, content)) in files {
            let quoted: String = path.iter().map(|byte| format!("\\{byte:03o}")).collect();
            let head = format!("M {mode} inline \"{quoted}\"\ndata {}\n", content.len());
            script.extend(head.bytes());
            script.extend(content);
            script.push(b'\n');
        }
        let import = ["fast-import", "--quiet", "--force"];
        crate::fixture::run_git_with_input(&self.fixture.path(), &import, &script);
        let name = format!("refs/heads/{branch}");
        self.fixture.run_git(&["rev-parse", &name]).parse().unwrap()
    }

    /// The files of a tree in the vault, or in the repository.
    fn read_files(&self, tree: &ObjectId) -> ModelFiles {
        let vaults = self.fixture.directory.path().join("home/vaults");
        let vault = vaults.join(format!("{}/shop+code.git", test_plan_id(1)));
        let listed = crate::fixture::run_git_with_input(
            &vault,
            &["ls-tree", "-r", "-z", "--full-tree", tree.as_str()],
            b"",
        );
        let mut entries = Vec::new();
        let mut asked = String::new();
        for line in listed
            .split(|byte| *byte == 0)
            .filter(|line| !line.is_empty())
        {
            let tab = line.iter().position(|byte| *byte == b'\t').unwrap();
            let head = std::str::from_utf8(&line[..tab]).unwrap();
            let [mode, _, id] = head.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{head}");
            };
            let modes = [PLAIN, PROGRAM, LINK];
            let mode = modes.into_iter().find(|known| *known == mode).unwrap();
            asked.push_str(&format!("{id}\n"));
            entries.push((line[tab + 1..].to_vec(), mode));
        }
        let batch = ["cat-file", "--batch=%(objectsize)"];
        let output = crate::fixture::run_git_with_input(&vault, &batch, asked.as_bytes());
        let mut rest = output.as_slice();
        let mut files = ModelFiles::new();
        for (path, mode) in entries {
            let end = rest.iter().position(|byte| *byte == b'\n').unwrap();
            let size: usize = std::str::from_utf8(&rest[..end]).unwrap().parse().unwrap();
            files.insert(path, (mode, rest[end + 1..end + 1 + size].to_vec()));
            rest = &rest[end + size + 2..];
        }
        files
    }

    fn diff(&self, result: &SandboxResult) -> TreeDiff {
        let key = self.fixture.sandbox_key(test_plan_id(1));
        let sandboxes = &self.fixture.sandboxes;
        sandboxes
            .diffs()
            .diff_trees(&key, &result.base, &result.tree)
            .unwrap()
    }

    fn list_changes(&self, result: &SandboxResult) -> Vec<FileChange> {
        self.diff(result)
            .list_file_changes("shop/code", &[])
            .unwrap()
    }

    fn pick(&self, result: &SandboxResult, chosen: &BTreeSet<HunkId>) -> SandboxResult {
        let key = self.fixture.sandbox_key(test_plan_id(1));
        let landings = self.fixture.sandboxes.landings();
        landings.pick_hunks(&key, result, chosen).unwrap().result
    }

    fn make_result(&self, base: &ModelFiles, new: &ModelFiles) -> SandboxResult {
        let base = self.write_commit(base, "base");
        let new = self.write_commit(new, "new");
        let tree = self
            .fixture
            .run_git(&["rev-parse", &format!("{new}^{{tree}}")]);
        SandboxResult {
            base,
            tree: tree.parse().unwrap(),
        }
    }
}

/// A failing case prints its seed. Set `PLANWRIGHT_TEST_SEED` to run it alone.
#[test]
fn picked_trees_are_the_base_plus_the_chosen_hunks() {
    if let Ok(seed) = std::env::var("PLANWRIGHT_TEST_SEED") {
        return check_case(&PickFixture::new(), seed.parse().unwrap());
    }
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let fixture = PickFixture::new();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= CASE_COUNT {
                        break;
                    }
                    check_case(&fixture, seed);
                }
            });
        }
    });
}

/// Prints the seed of a case that fails.
struct CaseSeed(u64);

impl Drop for CaseSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("PLANWRIGHT_TEST_SEED={}", self.0);
        }
    }
}

fn check_case(fixture: &PickFixture, seed: u64) {
    let _seed = CaseSeed(seed);
    let random = &mut ScheduleRandom::new(seed);
    let change = ModelDifference::new(random);
    let result = fixture.make_result(&change.base, &change.apply(|_| true));
    let listed = fixture.list_changes(&result);
    let hunks = change.match_hunks(&listed);
    let all: BTreeSet<HunkId> = hunks.iter().copied().collect();
    assert_eq!(all.len(), hunks.len(), "every part has its own hunk");
    let shown: BTreeSet<HunkId> = listed
        .iter()
        .flat_map(|change| change.hunks.iter().map(|hunk| hunk.id))
        .collect();
    assert_eq!(shown, all, "no hunk without a part");
    assert_eq!(fixture.pick(&result, &all), result);
    for _ in 0..PICKS_PER_CASE {
        let wanted: Vec<bool> = hunks.iter().map(|_| random.next_below(2) == 0).collect();
        let pick_where = |is_taken: bool| -> BTreeSet<HunkId> {
            let hunks = hunks.iter().zip(&wanted);
            let hunks = hunks.filter(|(_, wanted)| **wanted == is_taken);
            hunks.map(|(hunk, _)| *hunk).collect()
        };
        let picked = fixture.pick(&result, &pick_where(true));
        assert_eq!(
            fixture.read_files(&picked.tree),
            change.apply(|number| wanted[number])
        );
        // The chosen hunks keep their ids, and everything else is gone.
        let left: BTreeSet<HunkId> = fixture
            .list_changes(&picked)
            .iter()
            .flat_map(|change| change.hunks.iter().map(|hunk| hunk.id))
            .collect();
        assert_eq!(left, pick_where(true));
        let rest = fixture.pick(&result, &pick_where(false));
        assert_eq!(
            fixture.read_files(&rest.tree),
            change.apply(|number| !wanted[number])
        );
    }
}

#[test]
fn ids_survive_changes_elsewhere_in_the_file() {
    let fixture = PickFixture::new();
    let text = |lines: &[&str]| {
        let content = lines.concat().into_bytes();
        ModelFiles::from([(b"a.txt".to_vec(), (PLAIN, content))])
    };
    let base = text(&["one\n", "two\n", "three\n", "four\n", "five\n"]);
    let first = text(&["one\n", "two\n", "three\n", "FOUR\n", "five\n"]);
    let second = text(&["ONE\n", "1\n", "two\n", "three\n", "FOUR\n", "five\n"]);
    let ids = |new: &ModelFiles| -> Vec<HunkId> {
        let changes = fixture.list_changes(&fixture.make_result(&base, new));
        changes[0].hunks.iter().map(|hunk| hunk.id).collect()
    };
    let (first, second) = (ids(&first), ids(&second));
    assert_eq!(second.len(), 2);
    assert_eq!(first, second[1..]);
    // Ids are stored with choices and comments: they must not change between versions.
    assert_eq!(
        first[0].to_string(),
        "e62d194fe087b19f47fa866fe7345f6afcf1c7152463c2272fabb50878d2e493"
    );
}

#[test]
fn equal_hunks_are_told_apart() {
    let fixture = PickFixture::new();
    let text = |word: &str| {
        let content = format!("x\na\nb\nc\n{word}d\ne\nf\n{word}g\n").into_bytes();
        ModelFiles::from([(b"a.txt".to_vec(), (PLAIN, content))])
    };
    let result = fixture.make_result(&text(""), &text("same\n"));
    let changes = fixture.list_changes(&result);
    let second = BTreeSet::from([changes[0].hunks[1].id]);
    let picked = fixture.pick(&result, &second);
    let files = fixture.read_files(&picked.tree);
    assert_eq!(files[&b"a.txt"[..]].1, b"x\na\nb\nc\nd\ne\nf\nsame\ng\n");
}

#[test]
fn repository_configuration_makes_no_difference() {
    let fixture = PickFixture::new();
    let lines = |middle: &str| {
        let content = format!("{{\na\n}}\n{middle}{{\nb\n}}\n").into_bytes();
        let attributes = b"*.txt binary diff=shown\n".to_vec();
        ModelFiles::from([
            (b"a.txt".to_vec(), (PLAIN, content)),
            (b".gitattributes".to_vec(), (PLAIN, attributes)),
        ])
    };
    let mut new = lines("{\nx\n}\n");
    let moved = new.remove(&b"a.txt"[..]).unwrap();
    new.insert(b"b.txt".to_vec(), moved);
    let result = fixture.make_result(&lines(""), &new);
    let before = fixture.list_changes(&result);
    assert_eq!(before[0].content, ContentKind::Text);
    for setting in [
        ["diff.algorithm", "patience"],
        ["diff.renames", "false"],
        ["diff.renameLimit", "1"],
        ["diff.external", "false"],
        ["diff.shown.textconv", "false"],
        ["core.autocrlf", "true"],
        ["diff.indentHeuristic", "false"],
    ] {
        fixture
            .fixture
            .run_git(&[&["config"][..], &setting].concat());
    }
    assert_eq!(fixture.list_changes(&result), before);
}

#[test]
fn oversized_files_are_one_hunk() {
    let fixture = PickFixture::new();
    let big = |last: &str| {
        let mut content = b"0123456789abcde\n".repeat(300_000);
        content.extend(last.bytes());
        ModelFiles::from([(b"big.txt".to_vec(), (PLAIN, content))])
    };
    let result = fixture.make_result(&big("a\n"), &big("b\n"));
    let changes = fixture.list_changes(&result);
    assert_eq!(changes[0].content, ContentKind::Oversized);
    assert_eq!(changes[0].hunks.len(), 1);
    assert_eq!(changes[0].hunks[0].part, HunkPart::Whole);
    let versions = fixture.diff(&result).read_versions(&changes[0]).unwrap();
    assert_eq!(versions.new, None);
}

#[test]
fn unknown_hunks_are_refused() {
    let fixture = PickFixture::new();
    let text =
        |word: &str| ModelFiles::from([(b"a.txt".to_vec(), (PLAIN, word.as_bytes().to_vec()))]);
    let result = fixture.make_result(&text("a\n"), &text("b\n"));
    let other = fixture.make_result(&text("a\n"), &text("c\n"));
    let hunk = fixture.list_changes(&other)[0].hunks[0].id;
    let key = fixture.fixture.sandbox_key(test_plan_id(1));
    let landings = fixture.fixture.sandboxes.landings();
    match landings.pick_hunks(&key, &result, &BTreeSet::from([hunk])) {
        Err(SandboxError::HunkUnknown { hunk: named }) => assert_eq!(named, hunk),
        other => panic!("{other:?}"),
    }
}
