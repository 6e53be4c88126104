use std::process::Command;

use proptest::prelude::*;

use super::super::python::{Choice, resolve};
use super::*;

/// Builds a wheel of a package without code to run.
const BUILD_WHEEL: &str = r#"
import sys, zipfile
folder, name, requires = sys.argv[1:]
with zipfile.ZipFile(f"{folder}/{name}-1.0-py3-none-any.whl", "w") as wheel:
    info = f"{name}-1.0.dist-info"
    wheel.writestr(f"{name}/__init__.py", "value = 42\n")
    # Python runs this line at each start that reads the folder.
    wheel.writestr(f"{name}.pth", f"import os; open({folder + '/started'!r}, 'a').close()\n")
    requires = "".join(f"Requires-Dist: {r}\n" for r in requires.split())
    wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{requires}")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(f"{info}/RECORD", f"{name}/__init__.py,,\n{name}.pth,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
"#;

/// A cache folder, a folder of wheels and the interpreter of this machine.
struct Place {
    folder: tempfile::TempDir,
    interpreter: Interpreter,
    env: Env,
}

impl Place {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("wheels")).unwrap();
        let interpreter = resolve(&Choice::Auto, &Env::of_process(), &folder.path().join("cache")).await.unwrap();
        let wheels = folder.path().join("wheels");
        let mut place = Self { folder, interpreter, env: Env::default() };
        place.env = place.env_with(&[("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", wheels.to_str().unwrap())]);
        place
    }

    /// The user's pip settings stay out of the tests.
    fn env_with(&self, more: &[(&str, &str)]) -> Env {
        let home = self.folder.path().to_str().unwrap();
        let own = [("PATH", "/usr/bin:/bin"), ("HOME", home), ("PIP_CONFIG_FILE", "/dev/null")];
        own.iter().chain(more).copied().collect()
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn wheel(&self, name: &str, requires: &str) {
        let wheels = self.folder.path().join("wheels");
        let mut command = Command::new(&self.interpreter.path);
        command.args(["-I", "-c", BUILD_WHEEL]).arg(wheels).args([name, requires]);
        assert!(command.status().unwrap().success());
    }

    fn plan(&self, packages: &[&str]) -> Environment {
        let requirements: Vec<_> = packages.iter().map(|text| Requirement::parse(text).unwrap()).collect();
        plan(&self.interpreter, &requirements, &self.cache())
    }

    async fn ensure(&self, environment: &Environment) -> (Prepared, Vec<String>) {
        let mut told = Vec::new();
        let prepared = ensure(environment, &self.interpreter, &self.env, &mut |step| told.push(step.to_string())).await;
        (prepared, told)
    }

    fn python(&self, environment: &Environment, code: &str) -> String {
        let output = Command::new(&environment.python).args(["-I", "-c", code]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

fn site(environment: &Environment, interpreter: &Interpreter) -> PathBuf {
    environment.root.as_ref().unwrap().join(&interpreter.venv_site)
}

#[test]
fn plain_names_with_versions_are_taken() {
    let cases = [
        ("pandas", "pandas", "pandas"),
        (" Scikit_Learn ", "scikit-learn", "Scikit_Learn"),
        ("ruamel.yaml", "ruamel-yaml", "ruamel.yaml"),
        ("pandas[excel, plot]>=2.0", "pandas", "pandas[excel,plot]>=2.0"),
        ("numpy>=1.26,<3,!=2.1.*", "numpy", "numpy>=1.26,<3,!=2.1.*"),
        ("a== 1!2.0+local-1", "a", "a==1!2.0+local-1"),
        ("a~=1.0", "a", "a~=1.0"),
    ];
    for (text, name, passed) in cases {
        let requirement = Requirement::parse(text).unwrap();
        assert_eq!((requirement.name(), requirement.text()), (name, passed));
    }
}

#[test]
fn anything_else_is_refused() {
    let long = "x".repeat(300);
    let cases = [
        "",
        " ",
        "-r",
        "--index-url=x",
        "-e.",
        "./x",
        "/x",
        "../x",
        "a/b",
        "x.whl/..",
        "git+https://x",
        "https://x/y.whl",
        "a @ https://x",
        "a@x",
        "a b",
        "a\tb",
        "a\nb",
        "a;python_version>'3'",
        "a[",
        "a[]",
        "a[x",
        "a[-x]",
        "a[x]y",
        "a===1",
        "a==",
        "a==-1",
        "a>=1,",
        "a>=1;x",
        "a==1 --pre",
        "_a",
        "a-",
        ".a",
        "ä",
        "a\u{202e}b",
        "a\\b",
        "$a",
        "a==$(x)",
        "a=1",
        "\u{a0}a",
        "a\u{3000}",
        &long,
    ];
    for text in cases {
        let failure = Requirement::parse(text).unwrap_err();
        assert!(failure.what.contains("is no package name") && !failure.hint.is_empty(), "{text:?}: {failure:?}");
    }
}

proptest! {
    #[test]
    fn what_is_taken_cannot_be_an_option_a_path_or_a_url(text in r"[ -]?[a-zA-Z0-9\[\],.<>=!~@:/ ;_+*-]{0,20}") {
        if let Ok(requirement) = Requirement::parse(&text) {
            let passed = requirement.text();
            prop_assert!(passed.starts_with(|c: char| c.is_ascii_alphanumeric()), "{passed}");
            prop_assert!(!passed.contains(['/', ':', '@', ';', ' ', '\\']), "{passed}");
        }
    }
}

#[tokio::test]
async fn only_the_standard_library_does_not_wait() {
    let place = Place::new().await;
    let needs =
        |names: &[&str]| needs_packages(&names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>(), &place.interpreter);
    assert!(!needs(&[]));
    assert!(!needs(&["json", "collections", "math"]));
    assert!(needs(&["json", "pandas"]));
}

#[tokio::test]
async fn no_environment_where_the_interpreter_has_it_all() {
    let mut place = Place::new().await;
    place.interpreter.packages.insert("ready-made".into(), "1".into());
    for packages in [vec![], vec!["Ready_Made"]] {
        let environment = place.plan(&packages);
        assert_eq!(environment.python, place.interpreter.path);
        assert_eq!(environment.state, State::Ready(Prepared::default()));
    }
    assert_eq!(place.plan(&["ready-made>=1"]).state, State::Preparing);
    assert!(
        !place.cache().join("envs").read_dir().unwrap().any(|e| e
            .unwrap()
            .file_name()
            .to_string_lossy()
            .starts_with('.'))
    );
}

#[tokio::test]
async fn the_planned_environment_starts_at_once_and_sees_the_interpreters_packages() {
    let mut place = Place::new().await;
    let own = place.folder.path().join("own \"quoted\" ü");
    std::fs::create_dir(&own).unwrap();
    std::fs::write(own.join("from_outside.py"), "").unwrap();
    place.interpreter.site_dirs.push(own.clone());
    let environment = place.plan(&["absent"]);
    assert_eq!(environment.state, State::Preparing);
    let root = environment.root.clone().unwrap();
    let code = "import sys, os, from_outside; print(sys.prefix); print(sys.base_prefix)\n\
                print([p for p in sys.path if p.endswith('site-packages')][0])";
    let said = place.python(&environment, code);
    let site = root.join(&place.interpreter.venv_site);
    let expected = [&root, &place.interpreter.base_prefix, &site].map(|path| path.to_string_lossy().into_owned());
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_broken_environment_is_replaced() {
    let place = Place::new().await;
    let environment = place.plan(&["absent"]);
    let root = environment.root.clone().unwrap();
    let spoil: [&dyn Fn(); 3] = [
        &|| {
            std::fs::remove_file(root.join("bin/python")).unwrap();
            std::os::unix::fs::symlink("/nonexistent/python", root.join("bin/python")).unwrap();
        },
        &|| std::fs::write(root.join("pyvenv.cfg"), "home = /nonexistent\nversion = 3.1.0\n").unwrap(),
        &|| std::fs::remove_dir_all(root.join("lib")).unwrap(),
    ];
    for spoil in spoil {
        std::fs::write(root.join(MARKER), "{}").unwrap();
        spoil();
        let environment = place.plan(&["absent"]);
        assert_eq!(place.python(&environment, "import sys; print(sys.prefix)"), root.to_str().unwrap());
        assert!(!root.join(MARKER).exists());
    }
    let others = std::fs::read_dir(root.parent().unwrap()).unwrap().count();
    assert_eq!(others, 1, "nothing is left behind");
}

#[tokio::test]
async fn pipes_in_the_cache_hold_nobody_up() {
    let place = Place::new().await;
    let root = place.plan(&["sandscript-absent"]).root.unwrap();
    let answers = std::fs::read_dir(place.cache().join("python")).unwrap().flatten().map(|entry| entry.path());
    let others = [root.join(MARKER), root.join("pyvenv.cfg"), root.join(&place.interpreter.venv_site).join(PTH)];
    let lock = root.with_extension("lock");
    for path in answers.chain(others).chain([lock.clone()]) {
        let _ = std::fs::remove_file(&path);
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    }
    let all = async move {
        let Place { interpreter, folder, .. } = &place;
        assert_eq!(resolve(&Choice::Auto, &Env::of_process(), &place.cache()).await.unwrap(), *interpreter);
        let (interpreter, cache) = (interpreter.clone(), folder.path().join("cache"));
        let planned = move || plan(&interpreter, &[Requirement::parse("sandscript-absent").unwrap()], &cache);
        tokio::task::spawn_blocking(planned).await.unwrap();
        assert!(super::lock(&lock, &mut |_| ()).await.is_none());
    };
    // On a thread of its own, for a hang is one of the thread.
    let thread = std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(all);
    });
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while !thread.is_finished() {
        assert!(std::time::Instant::now() < until, "it waits for a pipe");
        std::thread::sleep(Duration::from_millis(10));
    }
    thread.join().unwrap();
}

#[tokio::test]
async fn without_a_cache_folder_the_interpreter_is_used() {
    let place = Place::new().await;
    let file = place.folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let environment = plan(&place.interpreter, &[Requirement::parse("Absent >= 1").unwrap()], &file);
    assert_eq!(environment.python, place.interpreter.path);
    let State::Ready(prepared) = environment.state else { panic!("it waits for nothing") };
    assert_eq!(prepared.missing[0].name, "Absent >= 1");
    assert!(prepared.hint.contains("cache folder"));
}

#[tokio::test]
async fn what_can_be_had_is_installed_and_the_rest_is_told() {
    let place = Place::new().await;
    place.wheel("sandscript_here", "sandscript_dependency");
    place.wheel("sandscript_dependency", "");
    let packages = ["sandscript-here", "sandscript-nowhere", " sandscript-dependency >= 2"];
    let environment = place.plan(&packages);
    // Left by a preparer that was killed.
    let half = site(&environment, &place.interpreter).join("sandscript_here-1.0.dist-info");
    std::fs::create_dir(&half).unwrap();
    std::fs::write(half.join("METADATA"), "Metadata-Version: 2.1\nName: sandscript_here\nVersion: 1.0\n").unwrap();

    let (prepared, told) = place.ensure(&environment).await;
    let missing: Vec<&str> = prepared.missing.iter().map(|missing| missing.name.as_str()).collect();
    // As configured, so that they can be found there.
    assert_eq!(missing, packages[1..], "{prepared:?}");
    assert!(prepared.missing[0].why.contains("no such package"), "{prepared:?}");
    assert!(prepared.hint.contains("policy.packages"), "{prepared:?}");
    assert_eq!(told, ["installing 2 packages"]);
    let started = place.folder.path().join("wheels/started");
    assert!(!started.exists(), "code of a wheel ran outside of a sandbox");
    assert_eq!(place.python(&environment, "import sandscript_here; print(sandscript_here.value)"), "42");
    assert!(started.exists());

    // The second start waits for nothing.
    assert_eq!(place.plan(&packages).state, State::Ready(prepared.clone()));
    // Nor does one that only writes them differently.
    let State::Ready(again) = place.plan(&["sandscript-here", "sandscript-nowhere", "sandscript-dependency>=2"]).state
    else {
        panic!("it would prepare again")
    };
    assert_eq!(again.missing[1].name, "sandscript-dependency>=2");
    // A package installed for the interpreter changes what the environment stands on.
    let mut changed = place.interpreter.clone();
    changed.packages.insert("new".into(), "1".into());
    let requirements: Vec<_> = packages.iter().map(|text| Requirement::parse(text).unwrap()).collect();
    assert_eq!(plan(&changed, &requirements, &place.cache()).state, State::Preparing);
}

#[tokio::test]
async fn an_index_that_is_not_there_is_told_soon_and_tried_again() {
    let mut place = Place::new().await;
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let index = format!("http://127.0.0.1:{port}/simple");
    place.env = place.env_with(&[("PIP_INDEX_URL", &index)]);
    let environment = place.plan(&["sandscript-one", "sandscript-two", "sandscript-three"]);
    let (prepared, told) = place.ensure(&environment).await;
    assert_eq!(prepared.missing.len(), 3);
    assert!(
        prepared.missing.iter().all(|missing| missing.why == "the package index cannot be reached"),
        "{prepared:?}"
    );
    assert!(prepared.hint.contains("network"), "{prepared:?}");
    // pip was run once, not once more for each.
    assert!(told.len() <= 1, "{told:?}");
    assert_eq!(place.plan(&["sandscript-one", "sandscript-two", "sandscript-three"]).state, State::Preparing);
}

#[tokio::test]
async fn without_pip_ensurepip_brings_it_into_the_environment() {
    let mut place = Place::new().await;
    if !place.interpreter.has_ensurepip {
        eprintln!("skipped: without_pip_ensurepip_brings_it_into_the_environment (this Python has no ensurepip)");
        return;
    }
    place.wheel("sandscript_here", "");
    // As if the interpreter had no packages at all.
    place.interpreter.site_dirs.clear();
    place.interpreter.has_pip = false;
    let environment = place.plan(&["sandscript-here"]);
    assert_eq!(place.ensure(&environment).await.0, Prepared::default());
    let pip = place.python(&environment, "import sandscript_here, pip; print(pip.__file__)");
    assert!(Path::new(&pip).starts_with(environment.root.unwrap()), "{pip}");
}

#[tokio::test]
async fn without_pip_and_ensurepip_the_hint_names_the_package() {
    let mut place = Place::new().await;
    place.interpreter.has_pip = false;
    place.interpreter.has_ensurepip = false;
    let (prepared, _) = place.ensure(&place.plan(&["absent"])).await;
    assert!(prepared.missing[0].why.contains("ensurepip"), "{prepared:?}");
    assert!(prepared.hint.contains("apt install python3-venv"), "{prepared:?}");
}

#[tokio::test]
async fn a_second_preparer_waits_and_takes_what_the_first_made() {
    let place = Place::new().await;
    let environment = place.plan(&["sandscript-shared"]);
    let root = environment.root.clone().unwrap();
    let first = File::create(root.with_extension("lock")).unwrap();
    first.lock().unwrap();
    let mut first = Some(first);
    let mut told = Vec::new();
    let made = Prepared::default();
    let marker = Marker { base: base(&place.interpreter), prepared: made.clone(), retry: false };
    // The first finishes while the second waits.
    let prepared = ensure(&environment, &place.interpreter, &place.env, &mut |step| {
        told.push(step);
        write_atomically(&root.join(MARKER), &serde_json::to_vec(&marker).unwrap()).unwrap();
        first = None;
    })
    .await;
    assert_eq!(told, [Progress::Waiting]);
    assert_eq!(prepared, made);
}

#[tokio::test]
async fn a_package_of_the_real_index() {
    if std::env::var_os("SANDSCRIPT_TEST_INDEX").is_none() {
        eprintln!("skipped: a_package_of_the_real_index (set SANDSCRIPT_TEST_INDEX=1 where the index can be reached)");
        return;
    }
    let mut place = Place::new().await;
    place.env = Env::of_process();
    let environment = place.plan(&["tinycss2"]);
    let (prepared, _) = place.ensure(&environment).await;
    assert_eq!(prepared, Prepared::default());
    place.python(&environment, "import tinycss2");
}
