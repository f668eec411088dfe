//! The simulated engine at a pace that is asked for.
//!
//! No published machine makes 20,000 tokens a second: a table's step takes longer with each slot, so that more slots soon bring no
//! more tokens. The pace is therefore set by step records: every step takes the same time whatever is in it, and its slots divided by
//! that time are the tokens a second. Prompts join the decoders of a step (`token_budget`) and take no step of their own.

use std::fmt::Write;
use std::path::PathBuf;

use inference_node::engine::{self, EngineKind, sim};
use service::error::{Error, Result};

/// Steps in the records; more than a fit needs.
const STEPS: u32 = 40;

/// An engine with a pace, and the file of its step records.
pub(super) struct Paced {
    pub(super) engine: engine::Config,
    /// What the engine makes with no slot empty and no step late, tokens a second.
    pub(super) tokens_per_s: f64,
    records: PathBuf,
}

impl Paced {
    /// `slots` sequences in steps of such a length that they make `tokens_per_s` together.
    ///
    /// # Errors
    /// If the records cannot be written.
    pub(super) fn new(slots: u32, tokens_per_s: u32) -> Result<Self> {
        let step_us = (1_000_000 * u64::from(slots)).div_ceil(u64::from(tokens_per_s));
        let mut csv = "prefill_tokens,decode_slots,context,device_us\n".to_owned();
        for step in 1..=STEPS {
            let (prompt, decoders) = if step % 2 == 0 { (step, 0) } else { (0, step) };
            // Writing to a text cannot fail.
            let _ = writeln!(csv, "{prompt},{decoders},{},{step_us}", 128 << (step % 4));
        }
        let records = std::env::temp_dir().join(format!("tokenwatt-bench-node-{}.csv", std::process::id()));
        std::fs::write(&records, csv)
            .map_err(|error| Error::internal(format!("write {}", records.display())).with_source(error))?;
        let sim = sim::Config {
            like: "h100".to_owned(),
            step_model: sim::Times::Replay,
            step_records: Some(records.clone()),
            slots,
            max_len: 1_024,
            ..sim::Config::default()
        };
        let engine = engine::Config { kind: EngineKind::Sim, sim, ..engine::Config::default() };
        Ok(Self { engine, tokens_per_s: f64::from(slots) * 1e6 / step_us as f64, records })
    }
}

impl Drop for Paced {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.records) {
            tracing::debug!(%error, "the step records stay");
        }
    }
}

#[cfg(test)]
mod tests {
    use inference_node::engine::{SeqId, SequenceInput, StepTime};
    use inference_node::schedule::{Phase, StepPlan};

    use super::*;

    /// A full step, one with a prompt among its decoders, and a prompt alone take the time that makes the pace.
    #[test]
    fn every_step_takes_the_same_time() {
        let paced = Paced::new(200, 20_000).unwrap();
        assert!((paced.tokens_per_s - 20_000.0).abs() < 1e-6);
        let (mut engine, _) = engine::build(&paced.engine).unwrap();
        for seq in 0..200 {
            let input = SequenceInput { prompt: [1, 2].into(), max_tokens: 9, sampling: Default::default() };
            engine.open(SeqId(seq), input).unwrap();
        }
        let work = |phase, start| super::super::work(0, phase, start, 2);
        let decoders = (1..200).map(|slot| super::super::work(slot, Phase::Decode, 2, 1));
        for items in [
            vec![work(Phase::Prefill, 0)],
            std::iter::once(work(Phase::Prefill, 0)).chain(decoders.clone()).collect(),
            decoders.clone().take(1).collect(),
            decoders.collect::<Vec<_>>(),
        ] {
            let time = engine.step(&StepPlan::exact(items, Vec::new())).unwrap().time;
            let StepTime::Modelled { device, .. } = time else { panic!("{time:?}") };
            assert!((device.as_secs_f64() - 0.01).abs() < 2e-6, "{device:?}");
        }
    }
}
