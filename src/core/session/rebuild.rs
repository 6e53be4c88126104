//! A session that goes on in another process: its open ends are closed, and its accepted cells may run again to have their
//! variables back.

use std::collections::VecDeque;

use super::{Effect, Run, Session, end, note};
use crate::core::event::{NoteKind, Outcome, RebuildCell, RunFinished, SessionInfo, Terms, TurnStatus};

/// Cells that run again, one by one.
#[derive(Debug)]
pub(super) struct Rebuild {
    queue: VecDeque<RebuildCell>,
    running: Option<RebuildCell>,
    failed: Vec<u32>,
    terms: Terms,
}

impl Session {
    /// The cells whose variables are not there any more after the session was continued; [`Event::RebuildDecided`] settles
    /// them.
    ///
    /// [`Event::RebuildDecided`]: crate::core::event::Event::RebuildDecided
    pub fn rebuildable(&self) -> &[RebuildCell] {
        if self.undecided { &self.accepted } else { &[] }
    }

    /// Whether earlier cells are being run again.
    pub fn is_rebuilding(&self) -> bool {
        self.rebuild.is_some()
    }

    /// Today's settings hold. A turn that was cut off ends here.
    pub(super) fn resumed(&mut self, info: &SessionInfo) -> Vec<Effect> {
        self.mode = Some(info.mode);
        self.info = Some(Box::new(info.clone()));
        self.missing.clear();
        self.rebuild = None;
        self.undecided = !self.accepted.is_empty();
        if self.turn.is_none() {
            return Vec::new();
        }
        let why = "the session was interrupted";
        vec![end(TurnStatus::Stopped, why, false)]
    }

    /// Inputs that come later are seen by a new Python only.
    pub(super) fn inputs_changed(&mut self) {
        if !self.undecided && self.cells > 0 {
            self.variables_lost();
        }
    }

    pub(super) fn rebuild_decided(&mut self, cells: &[RebuildCell], approved: bool, terms: &Terms) -> Vec<Effect> {
        if self.turn.is_some() || self.is_rebuilding() {
            return Vec::new();
        }
        self.start_without_variables();
        if !approved || cells.is_empty() {
            return Vec::new();
        }
        // What is told instead is known when they have run.
        self.pending_notes.pop();
        let queue = cells.iter().cloned().collect();
        self.rebuild = Some(Rebuild { queue, running: None, failed: Vec::new(), terms: terms.clone() });
        self.rebuild_next()
    }

    pub(super) fn start_without_variables(&mut self) {
        self.undecided = false;
        self.accepted.clear();
        self.pending_notes.push("the session was continued in a new Python: no variable of earlier code exists".into());
    }

    fn rebuild_next(&mut self) -> Vec<Effect> {
        let Some(rebuild) = &mut self.rebuild else { return Vec::new() };
        let Some(cell) = rebuild.queue.pop_front() else { return self.rebuilt() };
        self.cells += 1;
        let run = Run {
            step: cell.step,
            attempt: 0,
            cell: self.cells,
            code: cell.code.clone(),
            terms: rebuild.terms.clone(),
        };
        rebuild.running = Some(cell);
        vec![Effect::Run(run)]
    }

    pub(super) fn cell_rebuilt(&mut self, finished: &RunFinished) -> Vec<Effect> {
        let Some(rebuild) = &mut self.rebuild else { return Vec::new() };
        let Some(cell) = rebuild.running.take_if(|c| c.step == finished.step) else { return Vec::new() };
        match &finished.outcome {
            Outcome::Exited { code: 0 } => self.accepted.push(cell),
            Outcome::Cancelled | Outcome::SetupFailed { .. } | Outcome::BackendLost { .. } => {
                rebuild.failed.push(cell.step);
                rebuild.failed.extend(rebuild.queue.drain(..).map(|c| c.step));
            }
            Outcome::Exited { .. }
            | Outcome::Signaled { .. }
            | Outcome::TimeLimit
            | Outcome::CpuLimit
            | Outcome::MemoryLimit
            | Outcome::OutputLimit => rebuild.failed.push(cell.step),
        }
        if finished.variables_lost {
            // What was rebuilt so far went with the Python that had it.
            rebuild.failed.extend(self.accepted.drain(..).map(|c| c.step));
        }
        self.rebuild_next()
    }

    fn rebuilt(&mut self) -> Vec<Effect> {
        let Some(mut rebuild) = self.rebuild.take() else { return Vec::new() };
        rebuild.failed.sort_unstable();
        rebuild.failed.dedup();
        let steps = |steps: &[u32]| steps.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let good: Vec<u32> = self.accepted.iter().map(|c| c.step).collect();
        let (text, kind) = if rebuild.failed.is_empty() {
            (format!("the variables of steps {} are back", steps(&good)), NoteKind::Progress)
        } else if good.is_empty() {
            ("no variable of earlier code could be rebuilt".to_string(), NoteKind::Warning)
        } else {
            let lost = steps(&rebuild.failed);
            let text = format!("the variables of steps {} are back; steps {lost} could not be rebuilt", steps(&good));
            (text, NoteKind::Warning)
        };
        self.pending_notes.push(format!("the session was continued in a new Python: {text}"));
        vec![note(kind, text)]
    }
}
