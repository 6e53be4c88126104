//! Workbooks and columnar files, made readable for the profile: a throw-away sandbox of the session's kind turns them into
//! CSV under the limits of a run. What comes back is a file from outside like any other.

use std::path::Path;

use serde::Deserialize;

use super::inputs::{Inputs, Readable};
use super::{Cell, Executor, OpenRequest, Output};
use crate::core::event::StreamName;
use crate::core::policy::SecurityPolicy;

/// Endings this program cannot read itself.
const ENDINGS: &[&str] = &["xlsx", "xlsm", "parquet", "feather"];

/// Most files that are converted: the profile has room for no more.
const MAX_FILES: usize = 5;

/// Largest file that is converted, bytes: the first question waits for it.
const MAX_BYTES: u64 = 20 * 1024 * 1024;

/// Time for all of them, seconds: importing pandas takes one or two.
const SECONDS: u64 = 6;

/// One line of what `assets/convert.py` prints.
#[derive(Deserialize)]
struct Told {
    number: usize,
    sheet: String,
    others: Vec<String>,
    cut: bool,
}

/// Whether `inputs` has files that need this.
pub fn needed(inputs: &Inputs) -> bool {
    !chosen(inputs).is_empty()
}

/// Converts what can be converted into `folder` and notes it in `inputs`. What fails is left as it is.
pub async fn convert(executor: &dyn Executor, policy: &SecurityPolicy, inputs: &mut Inputs, folder: &Path) {
    let chosen = chosen(inputs);
    let files = chosen.iter().map(|at| inputs.files[*at].clone()).collect();
    let request =
        OpenRequest { policy: policy.clone(), inputs: Inputs { files, notes: Vec::new() }, keep: folder.to_path_buf() };
    let names: Vec<&str> = chosen.iter().map(|at| inputs.files[*at].name.as_str()).collect();
    // A JSON list of strings is a Python list of strings.
    let Ok(names) = serde_json::to_string(&names) else { return };
    let code = format!("NAMES = {names}\n{}", include_str!("../../assets/convert.py"));
    let Ok(sandbox) = executor.open(request).await else { return };
    let timeout_seconds = SECONDS.min(policy.timeout_seconds);
    let mut output = sandbox.run(Cell { number: 0, code, timeout_seconds });
    let mut said = String::new();
    while let Some(piece) = output.recv().await {
        if let Output::Text { stream: StreamName::Stdout, text, .. } = piece {
            said.push_str(&text);
        }
    }
    sandbox.close().await;
    for told in said.lines().filter_map(|line| serde_json::from_str::<Told>(line).ok()) {
        let path = folder.join(format!("table-{}.csv", told.number));
        if let Some(at) = chosen.get(told.number) {
            let Told { sheet, others, cut, .. } = told;
            inputs.files[*at].readable = Some(Readable { path, sheet, others, cut });
        }
    }
}

fn chosen(inputs: &Inputs) -> Vec<usize> {
    let fits =
        |name: &str| name.rsplit_once('.').is_some_and(|(_, end)| ENDINGS.contains(&end.to_ascii_lowercase().as_str()));
    let files = inputs.files.iter().enumerate();
    files.filter(|(_, f)| fits(&f.name) && f.bytes <= MAX_BYTES).map(|(at, _)| at).take(MAX_FILES).collect()
}
