use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use crate::log::sample;

fn add(data: &Path, id: &str) -> PathBuf {
    let folder = data.join("sessions").join(&id[..4]).join(&id[4..6]).join(id);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(LOG_FILE), sample::text()).unwrap();
    folder
}

fn aged(folder: &Path, days: u64) {
    let log = OpenOptions::new().append(true).open(folder.join(LOG_FILE)).unwrap();
    log.set_modified(SystemTime::now() - Duration::from_secs(days * 86_400)).unwrap();
}

fn ids(plan: &Plan) -> Vec<&str> {
    plan.goes.iter().map(|doomed| doomed.id.as_str()).collect()
}

#[test]
fn a_title_is_private_cleaned_and_taken_back() {
    let data = tempfile::tempdir().unwrap();
    let folder = add(data.path(), "20261130-200512-a1b2c3");
    assert_eq!(title(&folder), None);
    let given = rename(data.path(), &folder, &format!(" a\u{1b}[2J\nb\u{202e} {}", "é".repeat(500))).unwrap();
    assert_eq!(given.as_str().chars().count(), TITLE);
    assert!(given.as_str().starts_with("a b<U+202E> é"), "{given}");
    assert_eq!(title(&folder).unwrap(), given);
    assert_eq!(list::summary(&folder).unwrap().title, given);
    assert_eq!(folder.join(TITLE_FILE).metadata().unwrap().permissions().mode() & 0o777, 0o600);
    for _ in 0..2 {
        rename(data.path(), &folder, " \n").unwrap();
        assert_eq!(list::summary(&folder).unwrap().title.as_str(), "Which region grew most?");
    }
}

#[test]
fn a_hostile_title_file_is_read_within_bounds() {
    let data = tempfile::tempdir().unwrap();
    let folder = add(data.path(), "20261130-200512-a1b2c3");
    std::fs::write(folder.join(TITLE_FILE), b"\x1b]0;x\x07\xff\n\xf0\x9f".repeat(10_000)).unwrap();
    assert!(title(&folder).unwrap().as_str().chars().count() <= TITLE);
    std::fs::remove_file(folder.join(TITLE_FILE)).unwrap();
    symlink("/etc/hostname", folder.join(TITLE_FILE)).unwrap();
    assert_eq!(title(&folder), None);
}

#[test]
fn only_a_closed_session_of_the_data_folder_is_deleted() {
    let data = tempfile::tempdir().unwrap();
    let folder = add(data.path(), "20261130-200512-a1b2c3");
    let kept = add(data.path(), "20261130-200513-a1b2c3");
    let other = tempfile::tempdir().unwrap();
    let outside = add(other.path(), "20261130-200512-a1b2c3");
    let month = folder.parent().unwrap();
    symlink(&outside, month.join("20261130-200514-a1b2c3")).unwrap();
    symlink(outside.parent().unwrap(), month.with_file_name("12")).unwrap();
    for wrong in [
        outside.clone(),
        month.join("20261130-200514-a1b2c3"),
        month.with_file_name("12").join("20261130-200512-a1b2c3"),
        month.to_owned(),
        data.path().to_owned(),
        data.path().join("sessions/2026/11/../../../sessions"),
        month.join("20261130-200519-a1b2c3"),
    ] {
        assert!(delete(data.path(), &wrong).is_err(), "{}", wrong.display());
        assert!(rename(data.path(), &wrong, "x").is_err(), "{}", wrong.display());
    }
    std::fs::create_dir(folder.join("files")).unwrap();
    symlink(&outside, folder.join("files/link")).unwrap();

    let log = OpenOptions::new().append(true).open(folder.join(LOG_FILE)).unwrap();
    log.lock().unwrap();
    assert_eq!(delete(data.path(), &folder).unwrap_err().why, "another sandscript has it open");
    drop(log);
    delete(data.path(), &folder).unwrap();
    assert!(!folder.exists() && kept.join(LOG_FILE).exists() && outside.join(LOG_FILE).exists());
}

#[test]
fn old_sessions_go_and_open_ones_stay() {
    let data = tempfile::tempdir().unwrap();
    let folders = ["20260101-000000-000001", "20260102-000000-000001", "20260103-000000-000001"];
    let folders: Vec<PathBuf> = folders.iter().map(|id| add(data.path(), id)).collect();
    for (folder, days) in folders.iter().zip([40, 35, 1]) {
        aged(folder, days);
    }
    let month_ago = SystemTime::now() - Duration::from_secs(30 * 86_400);
    let plan = prune_plan(data.path(), Some(month_ago), None);
    assert_eq!(ids(&plan), ["20260101-000000-000001", "20260102-000000-000001"]);
    assert_eq!((plan.stays, plan.goes_bytes(), plan.open), (1, 2 * size(&folders[0]), 0));
    assert_eq!(plan.goes[0].summary.as_ref().unwrap().title.as_str(), "Which region grew most?");

    let log = OpenOptions::new().append(true).open(folders[0].join(LOG_FILE)).unwrap();
    log.lock().unwrap();
    let plan = prune_plan(data.path(), Some(month_ago), None);
    assert_eq!((ids(&plan), plan.open), (vec!["20260102-000000-000001"], 1));
}

#[test]
fn the_longest_unused_go_until_the_rest_is_small_enough() {
    let data = tempfile::tempdir().unwrap();
    let ids_by_age = ["20260103-000000-000001", "20260101-000000-000001", "20260102-000000-000001"];
    for (id, days) in ids_by_age.iter().zip([3, 2, 1]) {
        aged(&add(data.path(), id), days);
    }
    let one = size(&list::folders(data.path())[0]);
    assert_eq!(ids(&prune_plan(data.path(), None, Some(2 * one))), ids_by_age[..1]);
    assert_eq!(ids(&prune_plan(data.path(), None, Some(2 * one - 1))), ids_by_age[..2]);
    assert_eq!(ids(&prune_plan(data.path(), None, Some(0))), ids_by_age);
    assert!(prune_plan(data.path(), None, Some(3 * one)).goes.is_empty());
    assert!(prune_plan(data.path(), None, None).goes.is_empty());
}
