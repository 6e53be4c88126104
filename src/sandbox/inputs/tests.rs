use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use nix::sys::stat::Mode;
use proptest::prelude::*;

use super::*;
use crate::core::clean::is_direction;

struct Tree(tempfile::TempDir);

impl Tree {
    fn new(files: &[&str]) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        files.iter().for_each(|name| tree.write(name));
        tree
    }

    fn path(&self, name: &str) -> PathBuf {
        // The temporary folder may be behind a link itself (macOS).
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str) {
        std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        std::fs::write(self.path(name), name).unwrap();
    }

    fn list(&self, folder: &str, data: &[&str]) -> Result<Inputs, Failure> {
        let data: Vec<PathBuf> = data.iter().map(PathBuf::from).collect();
        list(&self.path(folder), &data, None)
    }
}

fn names(inputs: &Inputs) -> Vec<&str> {
    inputs.files.iter().map(|file| file.name.as_str()).collect()
}

#[test]
fn files_of_the_folder_top_first() {
    let tree = Tree::new(&["b.csv", "a/z.csv", "a/b/c.csv", "a.csv"]);
    let inputs = tree.list("", &[]).unwrap();
    assert_eq!(names(&inputs), ["a.csv", "b.csv", "a/z.csv", "a/b/c.csv"]);
    assert_eq!(inputs.files[2], Input::new("a/z.csv", tree.path("a/z.csv"), 7));
    assert_eq!(inputs.bytes(), 5 + 5 + 7 + 9);
    assert_eq!(inputs.notes, Vec::<String>::new());
}

#[test]
fn hidden_files_are_never_listed() {
    let tree = Tree::new(&["a.csv", ".env", ".git/config", "sub/.secret", "sub/.ssh/id", "sub/b.csv"]);
    symlink(tree.path(".env"), tree.path("env.csv")).unwrap();
    symlink(tree.path("sub/.ssh/id"), tree.path("id.csv")).unwrap();
    let inputs = tree.list("", &[]).unwrap();
    assert_eq!(names(&inputs), ["a.csv", "sub/b.csv"]);
    assert_eq!(inputs.notes, ["left out of the inputs: 2 links that leave the folder or lead to a folder"]);
}

#[test]
fn links_are_followed_only_to_files_inside() {
    let tree = Tree::new(&["in/a.csv", "in/sub/b.csv", "out/secret.csv"]);
    symlink("sub/b.csv", tree.path("in/inner.csv")).unwrap();
    symlink("../out/secret.csv", tree.path("in/outer.csv")).unwrap();
    symlink("../out", tree.path("in/folder")).unwrap();
    symlink(".", tree.path("in/loop")).unwrap();
    symlink("nowhere", tree.path("in/dangling")).unwrap();
    let inputs = tree.list("in", &[]).unwrap();
    assert_eq!(names(&inputs), ["a.csv", "inner.csv", "sub/b.csv"]);
    assert_eq!(inputs.files[1].path, tree.path("in/sub/b.csv"));
    assert_eq!(inputs.notes, ["left out of the inputs: 4 links that leave the folder or lead to a folder"]);
}

#[test]
fn pipes_sockets_and_names_that_cannot_be_shown_are_left_out() {
    let tree = Tree::new(&["a.csv", "exe\u{202e}vsc.py", "new\nline.csv", "zero\u{200b}width.csv"]);
    nix::unistd::mkfifo(&tree.path("pipe"), Mode::S_IRWXU).unwrap();
    let _socket = UnixListener::bind(tree.path("socket")).unwrap();
    // Some file systems refuse such a name, and then there is nothing to leave out.
    let bytes = std::fs::write(tree.path("").join(OsString::from_vec(b"\xff.csv".to_vec())), "").is_ok();
    let inputs = tree.list("", &[]).unwrap();
    assert_eq!(names(&inputs), ["a.csv"]);
    assert_eq!(
        inputs.notes,
        [
            "left out of the inputs: 2 sockets, pipes or devices".to_owned(),
            format!("left out of the inputs: {} names that cannot be shown", 3 + usize::from(bytes)),
        ]
    );
}

#[test]
fn folders_of_tools_are_left_out_unless_named() {
    let tree =
        Tree::new(&["a.csv", "node_modules/x/y.js", "env/pyvenv.cfg", "env/lib/z.py", "t/CACHEDIR.TAG", "t/o.bin"]);
    let inputs = tree.list("", &[]).unwrap();
    assert_eq!(names(&inputs), ["a.csv"]);
    assert_eq!(inputs.notes, ["left out of the inputs: 3 folders of tools (caches, virtual environments)"]);
    assert_eq!(names(&tree.list("", &["t"]).unwrap()), ["t/CACHEDIR.TAG", "t/o.bin", "a.csv"]);
}

#[test]
fn nothing_of_a_home_folder_or_above() {
    let tree = Tree::new(&["home/me/a.csv", "home/me/work/b.csv"]);
    let home = tree.path("home/me");
    for folder in ["home/me", "home", ""] {
        let inputs = list(&tree.path(folder), &[], Some(&home)).unwrap();
        assert_eq!(names(&inputs), Vec::<&str>::new(), "{folder}");
        assert_eq!(inputs.notes, ["files of a home folder are not given to the code: name some with --data"]);
    }
    assert_eq!(names(&list(&tree.path("home/me/work"), &[], Some(&home)).unwrap()), ["b.csv"]);
    let named = list(&home, &["work".into()], Some(&home)).unwrap();
    assert_eq!(names(&named), ["work/b.csv"]);
    assert_eq!(names(&list(Path::new("/"), &[], None).unwrap()), Vec::<&str>::new());
    // Also behind a link.
    symlink(&home, tree.path("link")).unwrap();
    assert_eq!(names(&list(&tree.path("link"), &[], Some(&home)).unwrap()), Vec::<&str>::new());
}

#[test]
fn named_files_appear_under_their_last_part_and_first() {
    let tree = Tree::new(&["in/a.csv", "in/sub/b.csv", "out/c.csv", "out/more/d.csv", "out/more/.e"]);
    let inputs = tree.list("in", &["../out/c.csv", "../out/more", "sub/b.csv"]).unwrap();
    assert_eq!(names(&inputs), ["c.csv", "more/d.csv", "sub/b.csv", "a.csv"]);
    assert_eq!(inputs.files[0].path, tree.path("out/c.csv"));
}

#[test]
fn two_inputs_of_one_name_are_an_error_that_names_both() {
    let tree = Tree::new(&["in/a.csv", "out/a.csv", "out/sub", "in/sub/b.csv"]);
    let failure = tree.list("in", &["../out/a.csv"]).unwrap_err();
    assert_eq!(failure.what, "two inputs would be called a.csv");
    assert!(failure.why.contains("out/a.csv") && failure.why.contains("in/a.csv"), "{}", failure.why);
    // A file where the other has a folder.
    assert_eq!(tree.list("in", &["../out/sub"]).unwrap_err().what, "two inputs would be called sub");
}

#[test]
fn what_cannot_be_used_is_an_error_with_a_hint() {
    let tree = Tree::new(&["in/a.csv", "out/.env"]);
    nix::unistd::mkfifo(&tree.path("pipe"), Mode::S_IRWXU).unwrap();
    for named in ["../gone.csv", "../out/.env", "../pipe"] {
        let failure = tree.list("in", &[named]).unwrap_err();
        assert!(failure.what.contains(named) && !failure.why.is_empty() && !failure.hint.is_empty(), "{failure:?}");
    }
    for folder in ["gone", "in/a.csv"] {
        let failure = tree.list(folder, &[]).unwrap_err();
        assert!(failure.what.contains(folder) && !failure.hint.is_empty(), "{failure:?}");
    }
}

#[test]
fn more_files_than_are_given_are_counted() {
    let tree = Tree::new(&[]);
    for at in 0..MAX_FILES + 5 {
        std::fs::write(tree.path(&format!("{at:04}.csv")), "").unwrap();
    }
    let inputs = tree.list("", &[]).unwrap();
    assert_eq!(inputs.files.len(), MAX_FILES);
    assert_eq!(inputs.files[MAX_FILES - 1].name, "0999.csv");
    assert_eq!(inputs.notes, ["only the first 1000 files are given to the code, 5 are not: use --data"]);
}

#[test]
fn a_walk_ends_at_its_limits() {
    let tree = Tree::new(&["a.csv", "sub/b.csv"]);
    for (entries, until, expected) in
        [(MAX_ENTRIES - 2, Instant::now() + MAX_WALK, vec!["a.csv"]), (0, Instant::now(), vec![])]
    {
        let mut walk = List { entries, until, ..List::new() };
        walk.walk(&tree.path(""), Path::new(""), &tree.path(""));
        let inputs = walk.finish().unwrap();
        assert_eq!(names(&inputs), expected);
        assert_eq!(inputs.notes, ["the folder is too large to be listed whole: name the files with --data"]);
    }
}

proptest! {
    #[test]
    fn shown_text_is_one_line_of_seen_characters(text: String, most in 0_usize..50) {
        let shown = shown(&text, most);
        prop_assert!(!shown.contains(char::is_control) && !shown.contains(is_direction));
        prop_assert!(shown.chars().count() <= most + 1);
    }

    #[test]
    fn a_plain_name_stays_inside(path in "[a./\u{202e}\n-]{0,12}") {
        if let Some(name) = plain_name(Path::new(&path)) {
            prop_assert!(!name.starts_with('/') && name.split('/').all(|part| !part.is_empty() && !part.starts_with('.')));
            prop_assert!(!name.contains(is_hidden_char));
        }
    }
}
