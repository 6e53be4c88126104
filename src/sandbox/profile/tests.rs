use std::path::{Path, PathBuf};

use super::*;

fn real(name: &str) -> Input {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    Input { name: name.into(), bytes: path.metadata().unwrap().len(), path }
}

#[test]
fn look() {
    let f = |n: &[&str]| Inputs { files: n.iter().map(|n| real(n)).collect(), notes: vec![] };
    for rows in [Rows::Allowed, Rows::SchemaOnly] {
        for n in [
            &["Automobile.csv"][..],
            &["Employee.csv"],
            &["Sleep_health_and_lifestyle_dataset.csv"],
            &["Automobile.csv", "Employee.csv", "Sleep_health_and_lifestyle_dataset.csv"],
        ] {
            let t = std::time::Instant::now();
            let text = describe(&f(n), rows);
            println!("{text}== {} {:?}", text.len(), t.elapsed());
        }
    }
}
