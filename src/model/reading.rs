//! The reply of a server, read as it comes: bytes to deltas, until it ends or a clock runs out.

use reqwest::Response;

use super::accumulate::ReplyBuilder;
use super::client::Trouble;
use super::errors::{Asked, Then};
use super::http::{self, Clocks, Out, Silence, Teller};
use super::sse::{SseItem, SseReader};
use super::{Delta, Draft};
use crate::core::event::{Channel, ModelFailure, ModelFailureKind as Kind};

/// Largest reply that is read. Models write a few hundred KiB at most, and each token costs about 200 bytes of envelope.
const MAX_REPLY_BYTES: usize = 64 * 1024 * 1024;

/// Largest body that is kept whole. Without an envelope for each token a reply is no larger than its text.
const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;

/// A reply that is being read.
pub(super) struct Reading<'a> {
    pub(super) asked: &'a Asked,
    pub(super) clocks: &'a mut Clocks,
    pub(super) teller: &'a mut Teller,
    pub(super) out: &'a Out,
    pub(super) builder: ReplyBuilder,
}

/// Why reading ended.
enum End {
    /// The server closed the reply, or the rest is of no use.
    Clean,
    /// The connection broke.
    Broke(String),
    /// A clock ran out.
    Silent(Silence),
    /// There is too much.
    TooLarge,
}

impl Reading<'_> {
    /// Reads to the end. `maybe_whole`: it may be one JSON body that is not streamed.
    pub(super) async fn read(mut self, response: Response, maybe_whole: bool) -> Result<Draft, Trouble> {
        let end = self.drain(response, maybe_whole).await;
        self.finish(end)
    }

    /// Reads on until there is a reason to stop. Returning drops the response, which stops the server.
    async fn drain(&mut self, mut response: Response, maybe_whole: bool) -> End {
        let mut reader = SseReader::new();
        let mut whole = maybe_whole.then(Vec::new);
        let mut total = 0;
        let end = loop {
            let bytes = match self.clocks.wait(self.teller, self.out, response.chunk()).await {
                Ok(Ok(Some(bytes))) => bytes,
                Ok(Ok(None)) => break End::Clean,
                Ok(Err(error)) => break End::Broke(http::reason(&error)),
                Err(silence) => break End::Silent(silence),
            };
            self.clocks.heard();
            total += bytes.len();
            if total > MAX_REPLY_BYTES {
                break End::TooLarge;
            }
            let events = match &mut whole {
                None => reader.feed(&bytes),
                Some(body) if body.len() + bytes.len() > MAX_BODY_BYTES => break End::TooLarge,
                Some(body) => {
                    body.extend_from_slice(&bytes);
                    match body.iter().find(|b| !b.is_ascii_whitespace()) {
                        None => continue,
                        Some(b'{') => {
                            self.clocks.payload();
                            continue;
                        }
                        // Events under a wrong content type.
                        Some(_) => reader.feed(&whole.take().unwrap_or_default()),
                    }
                }
            };
            if self.take(&events).await {
                return End::Clean;
            }
        };
        match (whole, &end) {
            (Some(body), End::Clean) => self.show(|builder| builder.body(&String::from_utf8_lossy(&body))).await,
            (None, End::Clean) => {
                self.take(&reader.finish()).await;
            }
            // Half of a body or of an event says nothing.
            (Some(_) | None, End::Broke(_) | End::Silent(_) | End::TooLarge) => {}
        }
        end
    }

    /// Takes items of the stream; `true` when the rest is of no use.
    async fn take(&mut self, items: &[SseItem]) -> bool {
        for item in items {
            if *item != SseItem::Comment {
                self.clocks.payload();
            }
            self.show(|builder| builder.push(item)).await;
            if self.builder.ended() {
                self.clocks.ended();
            }
            if self.builder.complete() {
                return true;
            }
        }
        false
    }

    async fn show(&mut self, step: impl FnOnce(&mut ReplyBuilder) -> Vec<(Channel, String)>) {
        for (channel, text) in step(&mut self.builder) {
            // A closed channel means the stream was dropped, and this future with it.
            let _ = self.out.send(Delta::Piece(channel, text)).await;
        }
    }

    /// The reply, or what is known of why there is none.
    fn finish(self, end: End) -> Result<Draft, Trouble> {
        let begun = self.clocks.has_payload();
        let over = self.builder.ended() || self.builder.complete();
        let result = self.builder.finish();
        let retry_or_fatal = if begun { Then::Fatal } else { Then::Retry(None) };
        let (failure, then) = match end {
            // Nothing came: as good as a request that was never answered.
            End::Clean if !begun => {
                let what = format!("{} sent an empty reply", self.asked.base_url);
                return Err((self.asked.failure(Kind::BrokeOff, what, "", LOG_HINT), retry_or_fatal));
            }
            End::Clean => return result.map_err(|failure| (failure, Then::Fatal)),
            End::Broke(_) | End::Silent(_) if over => return result.map_err(|failure| (failure, Then::Fatal)),
            End::Broke(why) => {
                let what = format!("the connection to {} broke in the middle of the reply", self.asked.base_url);
                (self.asked.failure(Kind::BrokeOff, what, &why, LOG_HINT), retry_or_fatal)
            }
            End::Silent(silence) => (silent(self.asked, silence), Then::Fatal),
            End::TooLarge => {
                let what = "the reply is larger than a reply can be";
                (self.asked.failure(Kind::Other, what, "", "use another model or server"), Then::Fatal)
            }
        };
        match result {
            // An error the server named itself, before the line broke, says more than the broken line.
            Err(named) if named.kind != Kind::BrokeOff => Err((named, Then::Fatal)),
            Err(ModelFailure { partial, .. }) => Err((ModelFailure { partial, ..failure }, then)),
            Ok(draft) => Err((ModelFailure { partial: draft.reply.text, ..failure }, then)),
        }
    }
}

pub(super) const LOG_HINT: &str = "ask again, or look into the server's log";

/// What a clock that ran out means.
pub(super) fn silent(asked: &Asked, silence: Silence) -> ModelFailure {
    match silence {
        Silence::NoFirstByte(time) => {
            let what = format!("{} did not begin to answer within {} s", asked.base_url, time.as_secs());
            asked.failure(Kind::Unreachable, what, "", "look into the server's log, or use a smaller model")
        }
        Silence::Quiet(time) => {
            let what = format!("{} fell silent for {} s in the middle of the reply", asked.base_url, time.as_secs());
            asked.failure(Kind::BrokeOff, what, "", LOG_HINT)
        }
        Silence::NoPayload(time) => {
            let what = format!("{} sent nothing but signs of life for {} s", asked.base_url, time.as_secs());
            asked.failure(Kind::BrokeOff, what, "", LOG_HINT)
        }
    }
}
