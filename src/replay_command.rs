//! `sandscript replay`: a session in the panes of the screen or, where there is no terminal, as text.

use std::io::IsTerminal;

use crate::cli::Replay;
use crate::error::{Error, Kind, Result};
use crate::log::list;
use crate::places::Places;
use crate::sessions;

/// Runs the command.
pub fn run(args: &Replay, places: &Places) -> Result<()> {
    let session =
        list::find_any(&places.data, &args.session).map_err(|failure| Error { kind: Kind::Usage, failure })?;
    if !std::io::stdout().is_terminal() {
        return sessions::print(&session, false);
    }
    // ---- the terminal branch: `Recording::open(&session)`, then `replay::run` behind the screen ----
    let hint = "print it: sandscript replay SESSION | less";
    Err(Error::new(Kind::Internal, "a replay needs the screen", "it is not there yet", hint))
}
