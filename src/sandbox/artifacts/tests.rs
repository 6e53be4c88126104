use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use super::*;

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        Self { folder }
    }

    fn work(&self, name: &str) -> PathBuf {
        self.folder.path().join("work").join(name)
    }

    fn keep(&self) -> PathBuf {
        self.folder.path().join("keep")
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.work(name).parent().unwrap()).unwrap();
        std::fs::write(self.work(name), text).unwrap();
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::take(&self.work("")).unwrap()
    }

    fn collect(&self, before: &Snapshot, inputs: &[&str]) -> Collected {
        let inputs = inputs.iter().map(|name| (*name).to_owned()).collect();
        collect(&self.work(""), before, &inputs, &self.keep()).unwrap()
    }
}

fn names(collected: &Collected) -> Vec<&str> {
    collected.artifacts.iter().map(|artifact| artifact.name.as_str()).collect()
}

#[test]
fn new_and_changed_files_are_kept_and_others_are_not() {
    let place = Place::new();
    place.write("old.txt", "old");
    place.write("grows.txt", "1");
    let before = place.snapshot();
    place.write("grows.txt", "12");
    place.write("new.txt", "new");
    place.write("charts/one.png", "png");
    place.write(".cache/x", "hidden");
    place.write("__pycache__/x.pyc", "bytecode");
    let collected = place.collect(&before, &[]);
    assert_eq!(names(&collected), ["charts-one.png", "grows.txt", "new.txt"]);
    assert_eq!(collected.skipped, Vec::<String>::new());
    assert_eq!(std::fs::read_to_string(place.keep().join("grows.txt")).unwrap(), "12");
    let mode = std::fs::metadata(place.keep().join("new.txt")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o644);
}

#[test]
fn a_rewrite_of_the_same_size_with_the_time_set_back_is_seen() {
    let place = Place::new();
    place.write("x.txt", "one");
    let time = std::fs::metadata(place.work("x.txt")).unwrap().modified().unwrap();
    let before = place.snapshot();
    place.write("x.txt", "two");
    File::options().write(true).open(place.work("x.txt")).unwrap().set_modified(time).unwrap();
    assert_eq!(names(&place.collect(&before, &[])), ["x.txt"]);
}

#[test]
fn kept_files_are_never_overwritten() {
    let place = Place::new();
    for (text, name) in [("1", "chart.png"), ("2", "chart-2.png"), ("3", "chart-3.png")] {
        let before = place.snapshot();
        place.write("chart.png", &format!("version {text}"));
        assert_eq!(names(&place.collect(&before, &[])), [name]);
    }
    assert_eq!(std::fs::read_to_string(place.keep().join("chart.png")).unwrap(), "version 1");
}

#[test]
fn what_is_no_plain_file_is_reported_and_left() {
    let place = Place::new();
    let outside = place.folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("key"), "secret").unwrap();
    symlink(outside.join("key"), place.work("link.png")).unwrap();
    symlink(&outside, place.work("folder")).unwrap();
    std::fs::hard_link(outside.join("key"), place.work("hard.png")).unwrap();
    nix::unistd::mkfifo(&place.work("pipe.png"), Mode::S_IRWXU).unwrap();
    let _socket = UnixListener::bind(place.work("socket.png")).unwrap();
    let collected = place.collect(&Snapshot::default(), &[]);
    assert_eq!(names(&collected), Vec::<&str>::new());
    assert_eq!(
        collected.skipped,
        [
            "folder was not kept: it is a link",
            "hard.png was not kept: it has more than one name (hard link)",
            "link.png was not kept: it is a link",
            "pipe.png was not kept: it is a pipe",
            "socket.png was not kept: it is a socket",
        ]
    );
    assert_eq!(std::fs::read_dir(place.keep()).unwrap().count(), 0);
}

#[test]
fn a_file_that_is_swapped_after_listing_is_not_followed_and_not_waited_for() {
    let place = Place::new();
    std::fs::write(place.folder.path().join("key"), "secret").unwrap();
    symlink(place.folder.path().join("key"), place.work("link")).unwrap();
    nix::unistd::mkfifo(&place.work("pipe"), Mode::S_IRWXU).unwrap();
    std::fs::create_dir(place.work("dir")).unwrap();
    std::fs::create_dir(place.keep()).unwrap();
    let parent = Dir::open(&place.work(""), OFlag::O_DIRECTORY, Mode::empty()).unwrap();
    let keep = place.keep();
    let mut collector = Collector { keep: &keep, out: Collected::default(), left: MAX_BYTES, unsaid: 0 };
    // As if each had been a regular file when the folder was listed.
    for name in [c"link", c"pipe", c"dir", c"gone"] {
        collector.take(Path::new(name.to_str().unwrap()), &parent, name);
    }
    assert_eq!(collector.out.artifacts, []);
    assert_eq!(collector.out.skipped.len(), 4);
    assert_eq!(collector.out.skipped[1], "pipe was not kept: it is no regular file");
    assert!(open_folder(&parent, c"link").is_err());
}

#[test]
fn changed_inputs_are_told_and_not_kept() {
    let place = Place::new();
    place.write("same.csv", "a");
    place.write("data/changed.csv", "a");
    place.write("removed.csv", "a");
    let before = place.snapshot();
    place.write("data/changed.csv", "b\n");
    std::fs::remove_file(place.work("removed.csv")).unwrap();
    symlink("/nowhere", place.work("linked.csv")).unwrap();
    let collected = place.collect(&before, &["same.csv", "data/changed.csv", "removed.csv", "linked.csv"]);
    assert_eq!(names(&collected), Vec::<&str>::new());
    assert_eq!(
        collected.skipped,
        [
            "data/changed.csv was changed in the sandbox; your file is unchanged",
            "removed.csv was removed in the sandbox; your file is unchanged",
        ]
    );
}

#[test]
fn names_become_plain() {
    let long = "x".repeat(300);
    let cases: [(&[u8], &str); 10] = [
        (b"chart.png", "chart.png"),
        (b"-rf", "rf"),
        (b"..", "file"),
        (b"\x1b[31mred\x07.png", "[31mred.png"),
        (b"a\xff.png", "a\u{fffd}.png"),
        ("exe\u{202e}gnp.sh".as_bytes(), "exegnp.sh"),
        (b"a\nb", "ab"),
        (b"../../etc/passwd", "etc-passwd"),
        ("übersicht 2.csv".as_bytes(), "übersicht 2.csv"),
        (b" .hidden ", "hidden"),
    ];
    for (raw, plain) in cases {
        assert_eq!(plain_name(OsStr::from_bytes(raw)), plain, "{raw:?}");
    }
    assert_eq!(plain_name(OsStr::new(&format!("{long}.png"))), format!("{}.png", "x".repeat(146)));
    assert_eq!(plain_name(OsStr::new(&"ü".repeat(200))).len(), 150);
}

#[test]
fn two_files_that_get_one_name_are_both_kept() {
    let place = Place::new();
    place.write("a/b.txt", "one");
    place.write("a-b.txt", "two");
    let collected = place.collect(&Snapshot::default(), &[]);
    assert_eq!(names(&collected), ["a-b.txt", "a-b-2.txt"]);
}

#[test]
fn too_many_too_deep_and_too_large_is_left_and_told() {
    let place = Place::new();
    for at in 0..MAX_FILES + 30 {
        place.write(&format!("{at:03}"), "");
    }
    let collected = place.collect(&Snapshot::default(), &[]);
    assert_eq!(collected.artifacts.len(), MAX_FILES);
    assert_eq!(collected.skipped.len(), MAX_NOTES + 1);
    assert_eq!(collected.skipped.last().unwrap(), "and 20 more notes on files");

    let place = Place::new();
    place.write("1/2/3/4/5/6/7/kept", "");
    place.write("1/2/3/4/5/6/7/8/left", "");
    let large = File::create(place.work("large")).unwrap();
    large.set_len(MAX_BYTES + 1).unwrap();
    let collected = place.collect(&Snapshot::default(), &[]);
    assert_eq!(names(&collected), ["1-2-3-4-5-6-7-kept"]);
    assert_eq!(
        collected.skipped,
        [
            "1/2/3/4/5/6/7/8 was not kept: it is too deep",
            "large was not kept: the files of a run may have 100 MiB together, and this one has 104857601 bytes",
        ]
    );
}

#[test]
fn a_file_is_cut_at_the_size_it_had() {
    let place = Place::new();
    place.write("x", "1234567890");
    let file = File::open(place.work("x")).unwrap();
    let copied = copy(&file, 4, place.folder.path(), "copy").unwrap();
    assert_eq!(copied, ("copy".into(), 4));
    assert_eq!(std::fs::read_to_string(place.folder.path().join("copy")).unwrap(), "1234");
}

#[test]
fn a_workspace_that_is_a_link_is_refused() {
    let place = Place::new();
    symlink(place.work(""), place.folder.path().join("other")).unwrap();
    assert!(Snapshot::take(&place.folder.path().join("other")).is_err());
}

#[test]
fn saving_never_overwrites_and_follows_no_link() {
    let place = Place::new();
    let out = place.folder.path().join("out");
    std::fs::create_dir_all(place.keep()).unwrap();
    std::fs::create_dir_all(&out).unwrap();
    std::fs::write(place.keep().join("chart.png"), "new").unwrap();
    std::fs::write(place.keep().join("report.txt"), "report").unwrap();
    std::fs::write(out.join("chart.png"), "mine").unwrap();
    symlink(place.folder.path().join("victim"), out.join("report.txt")).unwrap();
    symlink("/etc/hostname", place.keep().join("stolen")).unwrap();
    let artifacts =
        ["chart.png", "report.txt", "stolen", "../work"].map(|name| Artifact { name: name.into(), bytes: 1 });
    let result = save(&artifacts, &place.keep(), &out);
    assert_eq!(result.saved, [out.join("chart-2.png"), out.join("report-2.txt")]);
    assert_eq!(result.failed.len(), 2, "{:?}", result.failed);
    assert_eq!(std::fs::read_to_string(out.join("chart.png")).unwrap(), "mine");
    assert_eq!(std::fs::read_to_string(out.join("report-2.txt")).unwrap(), "report");
    assert!(!place.folder.path().join("victim").exists());
    assert_eq!(std::fs::metadata(out.join("chart-2.png")).unwrap().permissions().mode() & 0o7777, 0o644);
}

#[test]
fn saving_makes_the_folder_or_says_why_not() {
    let place = Place::new();
    place.write("file", "");
    let result = save(&[], &place.keep(), &place.work("file/out"));
    assert_eq!(result.failed.len(), 1);
    assert!(result.failed[0].contains("cannot be made"), "{:?}", result.failed);
}
