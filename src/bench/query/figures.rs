//! What a run came to.

use serde_json::{Map, Value, json};

/// One ad-hoc statement in our engine and in the others.
#[derive(Clone, Debug)]
pub(super) struct AdHoc {
    pub(super) name: &'static str,
    /// Milliseconds of the best run.
    pub(super) ms: f64,
    /// What each of the others came to, in the order of [`Figures::peers`].
    pub(super) peers: Vec<Beside>,
}

/// A statement in another engine.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Beside {
    /// The same rows, in so many milliseconds at best.
    Answered(f64),
    /// It does not know something in it, and says what.
    Refused(String),
    /// Other rows, and how they differ.
    Otherwise(String),
}

impl Beside {
    fn ms(&self) -> Option<f64> {
        match self {
            Beside::Answered(ms) => Some(*ms),
            Beside::Refused(_) | Beside::Otherwise(_) => None,
        }
    }
}

/// Everything that was measured.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) scale: f64,
    pub(super) fleet_scale: f64,
    pub(super) hours: u32,
    pub(super) threads: usize,
    /// Milliseconds of each run of each panel.
    pub(super) dashboard: Vec<(&'static str, Vec<f64>)>,
    /// Milliseconds of one request's timeline by a service just started.
    pub(super) timeline_ms: Vec<f64>,
    pub(super) adhoc: Vec<AdHoc>,
    /// Name and version of the other engines that are there.
    pub(super) peers: Vec<(&'static str, String)>,
}

impl Figures {
    /// One object. Means are over the statements that every engine answers, so that they are means of the same.
    pub(super) fn json(&self) -> Value {
        let all: Vec<f64> = self.dashboard.iter().flat_map(|(_, ms)| ms.iter().copied()).collect();
        let panels = self.dashboard.iter().map(|(name, ms)| ((*name).to_owned(), json!(rounded(quantile(ms, 0.5)))));
        let common: Vec<_> = self.adhoc.iter().filter(|run| run.peers.iter().all(|peer| peer.ms().is_some())).collect();
        let mut figures = Map::new();
        let mut set = |name: String, value: Value| figures.insert(name, value);
        set("scale".to_owned(), json!(self.scale));
        set("fleet_scale".to_owned(), json!(self.fleet_scale));
        set("hours".to_owned(), json!(self.hours));
        set("threads".to_owned(), json!(self.threads));
        set("dashboard_p95_ms".to_owned(), json!(rounded(quantile(&all, 0.95))));
        let worst = self.dashboard.iter().filter_map(|(_, ms)| quantile(ms, 0.5)).max_by(f64::total_cmp);
        set("dashboard_worst_ms".to_owned(), json!(rounded(worst)));
        set("token_timeline_ms".to_owned(), json!(rounded(quantile(&self.timeline_ms, 0.5))));
        set("adhoc_statements".to_owned(), json!(self.adhoc.len()));
        set("geomean_statements".to_owned(), json!(common.len()));
        set("geomean_ms".to_owned(), json!(rounded(geometric_mean(common.iter().map(|run| run.ms)))));
        for (place, (name, version)) in self.peers.iter().enumerate() {
            let of = |run: &AdHoc| run.peers.get(place).and_then(Beside::ms);
            let mean = geometric_mean(common.iter().filter_map(|run| of(run)));
            let refused = self.refused(place).count();
            set(format!("{name}_geomean_ms"), json!(rounded(mean)));
            set(format!("{name}_refused"), json!(refused));
            set(format!("{name}_version"), json!(version));
        }
        set("dashboard".to_owned(), panels.collect::<Map<_, _>>().into());
        set("adhoc".to_owned(), self.adhoc.iter().map(|run| self.statement(run)).collect::<Map<_, _>>().into());
        figures.into()
    }

    /// How the answers of the others differ from ours, if any does.
    pub(super) fn otherwise(&self) -> Option<String> {
        let differ = self.adhoc.iter().flat_map(|run| {
            run.peers.iter().zip(&self.peers).filter_map(|(peer, (engine, _))| match peer {
                Beside::Otherwise(how) => Some(format!("{}: {engine} answers otherwise: ours is {how}", run.name)),
                Beside::Answered(_) | Beside::Refused(_) => None,
            })
        });
        let differ: Vec<_> = differ.collect();
        (!differ.is_empty()).then(|| differ.join("; "))
    }

    /// The statements that another engine does not know, and what it says.
    pub(super) fn refused(&self, place: usize) -> impl Iterator<Item = (&'static str, &str)> {
        self.adhoc.iter().filter_map(move |run| match run.peers.get(place)? {
            Beside::Refused(why) => Some((run.name, why.as_str())),
            Beside::Answered(_) | Beside::Otherwise(_) => None,
        })
    }

    fn statement(&self, run: &AdHoc) -> (String, Value) {
        let ours = std::iter::once(("ms".to_owned(), json!(rounded(Some(run.ms)))));
        let theirs = run.peers.iter().zip(&self.peers);
        let theirs = theirs.map(|(peer, (engine, _))| (format!("{engine}_ms"), json!(rounded(peer.ms()))));
        (run.name.to_owned(), ours.chain(theirs).collect::<Map<_, _>>().into())
    }
}

/// The smallest value that so large a share of them does not exceed.
fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let rank = (share * values.len() as f64).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied()
}

/// `None` of no values.
fn geometric_mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let logs: Vec<_> = values.map(f64::ln).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

fn rounded(ms: Option<f64>) -> Option<f64> {
    ms.map(|ms| (ms * 100.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_quantiles() {
        assert_eq!(quantile(&[3.0, 1.0, 2.0, 4.0], 0.5), Some(2.0));
        assert_eq!(quantile(&[3.0, 1.0, 2.0, 4.0], 0.95), Some(4.0));
        assert_eq!(quantile(&[], 0.5), None);
        let mean = geometric_mean([2.0, 8.0].into_iter()).unwrap();
        assert!((mean - 4.0).abs() < 1e-12);
        assert_eq!(geometric_mean(std::iter::empty()), None);
    }

    /// A statement that one engine refuses, or answers otherwise, is in nobody's mean.
    #[test]
    fn means_are_of_what_all_answer() {
        let run = |name, ms, peers: [Beside; 2]| AdHoc { name, ms, peers: peers.to_vec() };
        let figures = Figures {
            scale: 0.1,
            fleet_scale: 1.0,
            hours: 24,
            threads: 2,
            dashboard: Vec::new(),
            timeline_ms: Vec::new(),
            adhoc: vec![
                run("a", 2.0, [Beside::Answered(3.0), Beside::Answered(4.0)]),
                run("b", 8.0, [Beside::Answered(27.0), Beside::Answered(9.0)]),
                run("c", 1_000.0, [Beside::Answered(1.0), Beside::Refused("no lag".to_owned())]),
                run("d", 1_000.0, [Beside::Otherwise("1, not 2".to_owned()), Beside::Answered(1.0)]),
            ],
            peers: vec![("duckdb", "2".to_owned()), ("chdb", "4".to_owned())],
        };
        let json = figures.json();
        let wanted = [
            ("adhoc_statements", json!(4)),
            ("geomean_statements", json!(2)),
            ("geomean_ms", json!(4.0)),
            ("duckdb_geomean_ms", json!(9.0)),
            ("chdb_geomean_ms", json!(6.0)),
            ("duckdb_refused", json!(0)),
            ("chdb_refused", json!(1)),
        ];
        for (name, value) in wanted {
            assert_eq!(json[name], value, "{name}");
        }
        assert_eq!(json["adhoc"]["c"], json!({"ms": 1_000.0, "duckdb_ms": 1.0, "chdb_ms": null}));
        assert_eq!(figures.otherwise().as_deref(), Some("d: duckdb answers otherwise: ours is 1, not 2"));
    }
}
