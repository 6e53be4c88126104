//! What a run may use ([`SecurityPolicy`]), and what an executor can hold it to ([`Capabilities`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

const MIB: u64 = 1024 * 1024;

/// Limits of every run of a session. Sizes are bytes, times are seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SecurityPolicy {
    /// Wall time of one run, counted from the start of the code.
    pub timeout_seconds: u64,
    /// Memory of all processes of a run together.
    pub max_memory_bytes: u64,
    /// Processor cores.
    pub max_cpus: f64,
    /// Processes and threads.
    pub max_processes: u64,
    /// Open files of a process.
    pub max_open_files: u64,
    /// Size of one file.
    pub max_file_bytes: u64,
    /// Size of the scratch folder.
    pub scratch_bytes: u64,
    /// Bytes one stream may print.
    pub max_output_bytes: u64,
    /// Network setting.
    pub network: Network,
    /// Everything but the scratch folder is read-only.
    pub readonly_filesystem: bool,
    /// Image of the docker executor; untagged or `latest` is refused.
    pub docker_image: String,
    /// Distributions the code may import; may be empty.
    pub packages: Vec<String>,
}

impl Default for SecurityPolicy {
    fn default() -> Self {
        Self {
            timeout_seconds: 10,
            // pandas with one pyplot figure needs 107 MiB; 512 leaves room for data.
            max_memory_bytes: 512 * MIB,
            max_cpus: 1.0,
            max_processes: 64,
            max_open_files: 256,
            max_file_bytes: 256 * MIB,
            scratch_bytes: 256 * MIB,
            max_output_bytes: 64 * MIB,
            network: Network::Off,
            readonly_filesystem: true,
            docker_image: "python:3.12-slim".into(),
            packages: ["numpy", "pandas", "scipy", "matplotlib", "openpyxl"].map(String::from).to_vec(),
        }
    }
}

impl SecurityPolicy {
    /// The built-in profile `strict`.
    pub fn strict() -> Self {
        Self {
            timeout_seconds: 10,
            max_memory_bytes: 128 * MIB,
            max_cpus: 0.5,
            docker_image: "python:3.12-alpine".into(),
            packages: ["pandas", "numpy"].map(String::from).to_vec(),
            ..Self::default()
        }
    }
}

/// Whether a run may reach the network.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Nothing leaves.
    #[default]
    Off,
    /// Only these host names.
    List(Vec<String>),
    /// Everything public.
    On,
}

/// How far a limit holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// Held against hostile code.
    Enforced,
    /// Held against ordinary code.
    BestEffort,
    /// Not held.
    No,
}

/// The limits an executor reports on (`reference/sandbox.md` §10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Wall time.
    WallTime,
    /// Processor time.
    CpuTime,
    /// Processor rate.
    CpuRate,
    /// Memory.
    Memory,
    /// Processes.
    Processes,
    /// Size of one file.
    FileSize,
    /// Size of the scratch folder.
    Scratch,
    /// Open files.
    OpenFiles,
    /// Output of a stream.
    Output,
    /// Network.
    Network,
    /// Files of the host.
    HostFiles,
    /// Stop ends every process of the run.
    Kill,
}

/// How far each limit holds; a limit that is not listed is not held.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Capabilities(pub BTreeMap<Limit, Hold>);

impl Capabilities {
    /// How far `limit` holds.
    pub fn hold(&self, limit: Limit) -> Hold {
        self.0.get(&limit).copied().unwrap_or(Hold::No)
    }

    /// Whether code nobody has read may run here: host files, network and kill are enforced (design §1.1).
    pub fn isolates(&self) -> bool {
        [Limit::HostFiles, Limit::Network, Limit::Kill].into_iter().all(|l| self.hold(l) == Hold::Enforced)
    }
}

impl<const N: usize> From<[(Limit, Hold); N]> for Capabilities {
    fn from(pairs: [(Limit, Hold); N]) -> Self {
        Self(BTreeMap::from(pairs))
    }
}
