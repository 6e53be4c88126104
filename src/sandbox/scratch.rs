//! Removing the folder of a sandbox, whatever the code made of it: folders it took its own rights from, or that are deeper
//! than a path may be long. The runner does the same where it still can.

use std::ffi::CString;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, renameat};
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

/// Folders open at once: far below the usual limit of open files (256).
const MAX_DEPTH: usize = 50;

/// Removes a folder without following links in it. What is deep is brought up to the top, so that neither the depth nor the
/// limit of open files matters.
pub(super) fn remove(folder: &Path) -> std::io::Result<()> {
    let Ok(name) = CString::new(folder.as_os_str().as_encoded_bytes()) else {
        return Err(std::io::ErrorKind::InvalidInput.into());
    };
    let mut top = match open(AT_FDCWD, &name) {
        Err(Errno::ENOENT) => return Ok(()), // the runner was quicker
        top => top?,
    };
    let mut removal = Removal { top: top.as_fd().try_clone_to_owned()?, brought_up: 0 };
    while removal.step(&mut top, 0)? {}
    std::fs::remove_dir(folder)
}

struct Removal {
    top: OwnedFd,
    /// Folders so far, for their names at the top.
    brought_up: u64,
}

impl Removal {
    /// Removes what it can in `folder`; whether anything changed. What cannot be removed shows at the end.
    fn step(&mut self, folder: &mut Dir, depth: usize) -> nix::Result<bool> {
        let mut names = Vec::new();
        for entry in folder.iter() {
            let entry = entry?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                names.push((entry.file_name().to_owned(), entry.file_type()));
            }
        }
        let here = folder.as_fd();
        let mut changed = false;
        for (name, kind) in names {
            let done = if !is_folder(here, &name, kind) {
                unlinkat(here, name.as_c_str(), UnlinkatFlags::NoRemoveDir)
            } else if depth == MAX_DEPTH {
                self.brought_up += 1;
                allow(here, &name); // its link to the parent changes
                renameat(here, name.as_c_str(), self.top.as_fd(), format!(".removed-{}", self.brought_up).as_str())
            } else {
                if let Ok(mut inner) = open(here, &name) {
                    changed |= self.step(&mut inner, depth + 1)?;
                }
                unlinkat(here, name.as_c_str(), UnlinkatFlags::RemoveDir)
            };
            changed |= done.is_ok();
        }
        Ok(changed)
    }
}

/// Not every file system says in its listing what an entry is.
fn is_folder(at: BorrowedFd<'_>, name: &CString, kind: Option<Type>) -> bool {
    let asked = || fstatat(at, name.as_c_str(), nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW);
    let is_dir = |stat: nix::sys::stat::FileStat| stat.st_mode & nix::libc::S_IFMT == nix::libc::S_IFDIR;
    kind.map_or_else(|| asked().is_ok_and(is_dir), |kind| kind == Type::Directory)
}

/// Gives us back the rights on a folder; where that fails, what follows does.
fn allow(at: BorrowedFd<'_>, name: &CString) {
    let _ = fchmodat(at, name.as_c_str(), Mode::S_IRWXU, FchmodatFlags::FollowSymlink);
}

fn open(at: BorrowedFd<'_>, name: &CString) -> nix::Result<Dir> {
    allow(at, name);
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    Dir::openat(at, name.as_c_str(), flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn folders_without_rights_and_links_are_no_obstacle() {
        let home = tempfile::tempdir().unwrap();
        let outside = home.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("file"), "x").unwrap();
        std::fs::set_permissions(&outside, Permissions::from_mode(0o500)).unwrap();
        let scratch = home.path().join("scratch");
        std::fs::create_dir_all(scratch.join("d/e/f")).unwrap();
        std::fs::write(scratch.join("d/e/f/file"), "x").unwrap();
        std::os::unix::fs::symlink(&outside, scratch.join("d/e/link")).unwrap();
        std::os::unix::fs::symlink(&outside, scratch.join("link")).unwrap();
        for (folder, mode) in [("d/e/f", 0), ("d/e", 0o500), ("d", 0)] {
            std::fs::set_permissions(scratch.join(folder), Permissions::from_mode(mode)).unwrap();
        }
        remove(&scratch).unwrap();
        assert!(!scratch.exists());
        assert_eq!(outside.metadata().unwrap().permissions().mode() & 0o777, 0o500);
        assert!(outside.join("file").exists());
        remove(&scratch).unwrap();
    }

    #[test]
    fn depth_is_no_obstacle() {
        let home = tempfile::tempdir().unwrap();
        let scratch = home.path().join("scratch");
        std::fs::create_dir(&scratch).unwrap();
        let long = "d".repeat(100);
        for _ in 0..12 {
            // A chain grows from its end, for no path may be that long.
            let (chain, last) =
                (home.path().join("chain"), home.path().join("chain").join([long.as_str(); 9].join("/")));
            std::fs::create_dir_all(&last).unwrap();
            let _ = std::fs::rename(scratch.join(&long), last.join(&long));
            std::fs::rename(chain, scratch.join(&long)).unwrap();
        }
        remove(&scratch).unwrap();
        assert!(!scratch.exists());
    }
}
