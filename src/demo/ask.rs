//! One call of an application: search, then a streamed chat completion, both under one trace.

use std::time::Duration;

use rand::Rng;
use reqwest::Client;
use serde_json::json;
use service::clock::SharedClock;

use super::fleet::{MODEL, TENANTS};
use super::prompt::{self, Question};
use super::trace::{Trace, Tracer};

/// An application in a region.
pub(crate) struct Application {
    pub(crate) client: Client,
    pub(crate) gateway: String,
    pub(crate) clock: SharedClock,
    pub(crate) tracer: Tracer,
}

/// What one call will be, drawn before it starts.
pub(crate) struct Drawn {
    question: Question,
    tenant: &'static str,
    key: &'static str,
    search: Duration,
    trace: Trace,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The whole answer was read.
    Answered,
    /// The gateway refused it, or the stream broke.
    Failed,
}

/// Draws everything random about a call.
pub(crate) fn draw(rng: &mut impl Rng) -> Drawn {
    let (tenant, key) = tenant(rng.random());
    // A search takes 15 to 60 ms: the fastest of two draws, so that slow ones are rare.
    let search_ms = rng.random_range(15..=60u64).min(rng.random_range(15..=60));
    let trace = Trace { trace_id: rng.random(), answer_id: rng.random(), retrieval_id: rng.random() };
    Drawn { question: prompt::draw(rng), tenant, key, search: Duration::from_millis(search_ms), trace }
}

/// The tenant at `point` of the cumulated shares, 0 to 1.
fn tenant(point: f64) -> (&'static str, &'static str) {
    let mut left = point;
    for (tenant, key, share) in TENANTS {
        if left < share {
            return (tenant, key);
        }
        left -= share;
    }
    (TENANTS[0].0, TENANTS[0].1)
}

impl Application {
    /// Searches, asks and reads the answer to its end; both steps are traced as the application's own spans.
    pub(crate) async fn ask(&self, drawn: Drawn) -> Outcome {
        let begun_ns = self.clock.now_ns();
        tokio::time::sleep(drawn.search).await;
        let found_ns = self.clock.now_ns();
        self.tracer.retrieval(&drawn.trace, drawn.tenant, drawn.question.passages, begun_ns, found_ns);
        let outcome = match self.stream(&drawn).await {
            Ok(()) => Outcome::Answered,
            Err(error) => {
                tracing::debug!(gateway = self.gateway, error = service::error::chain(&error), "a demo call failed");
                Outcome::Failed
            }
        };
        self.tracer.answer(&drawn.trace, drawn.tenant, begun_ns, self.clock.now_ns(), outcome == Outcome::Answered);
        outcome
    }

    async fn stream(&self, drawn: &Drawn) -> Result<(), reqwest::Error> {
        let body = json!({
            "model": MODEL,
            "stream": true,
            "stream_options": {"include_usage": true},
            "max_tokens": drawn.question.max_tokens,
            "messages": [
                {"role": "system", "content": drawn.question.context},
                {"role": "user", "content": drawn.question.text},
            ],
        });
        let request = self.client.post(format!("{}/v1/chat/completions", self.gateway));
        let request = request.bearer_auth(drawn.key).header("traceparent", drawn.trace.traceparent());
        let mut response = request.json(&body).send().await?.error_for_status()?;
        while response.chunk().await?.is_some() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every point of the line belongs to a tenant, in proportion to the shares.
    #[test]
    fn tenants_by_share() {
        assert_eq!(tenant(0.0).0, "acme");
        assert_eq!(tenant(0.499).0, "acme");
        assert_eq!(tenant(0.5).0, "globex");
        assert_eq!(tenant(0.89).0, "initech");
        assert_eq!(tenant(0.999).0, "umbrella");
    }
}
