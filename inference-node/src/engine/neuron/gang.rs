//! All ranks of a model, moved as one.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::ffi::{self, Machine, Runtime};
use super::manifest::Manifest;
use super::neff::Neffs;
use super::rank::{self, Answer, Done, Fault, Order, Seat};

/// How long ranks may take to give back what they hold.
const LEAVE: Duration = Duration::from_secs(10);

/// The loaded ranks.
pub(super) struct Gang {
    /// Given up last, so that the runtime closes when the ranks have left.
    runtime: Arc<Runtime>,
    machine: Machine,
    orders: Vec<SyncSender<Arc<Order>>>,
    answers: Receiver<Answer>,
    threads: Vec<JoinHandle<()>>,
    patience: Duration,
    samples: bool,
}

/// How a model is put on a machine.
pub(super) struct Plan<'a> {
    pub(super) library: &'a Path,
    pub(super) folder: &'a Path,
    pub(super) first_core: u32,
    pub(super) load_patience: Duration,
    pub(super) step_patience: Duration,
}

/// Why a step came to nothing.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) reason: String,
    /// Whether state on the device cannot be relied on any more.
    pub(super) is_loss: bool,
}

impl Gang {
    /// Initialises the runtime and loads every rank, all at once: loading sets up the collectives between them.
    ///
    /// # Errors
    /// Why it cannot, for people.
    pub(super) fn load(plan: &Plan<'_>, manifest: &Arc<Manifest>) -> Result<Self, String> {
        let runtime = Runtime::open(plan.library).map_err(|fault| no_device(&fault))?;
        let machine = runtime.machine().map_err(|fault| fault.to_string())?;
        manifest.fits(machine.family, plan.first_core, machine.cores)?;
        let ranks = manifest.tensor_parallel;
        // Room for two answers of each rank, so that none of them ever waits for the step thread.
        let (answer, answers) = sync_channel(2 * ranks as usize);
        let neffs = Arc::new(Neffs::new(manifest));
        let (mut orders, mut threads) = (Vec::new(), Vec::new());
        for rank in 0..ranks {
            let seat = Seat {
                runtime: Arc::clone(&runtime),
                manifest: Arc::clone(manifest),
                neffs: Arc::clone(&neffs),
                folder: plan.folder.to_owned(),
                rank,
                core: plan.first_core + rank,
            };
            let (give, take) = sync_channel(1);
            let answer = answer.clone();
            let thread = std::thread::Builder::new().name(format!("neuron.rank{rank}"));
            let thread = thread.spawn(move || rank::run(&seat, &take, &answer)).map_err(|error| error.to_string())?;
            orders.push(give);
            threads.push(thread);
        }
        let patience = plan.step_patience;
        let mut gang = Self { runtime, machine, orders, answers, threads, patience, samples: false };
        gang.samples = gang.gather(plan.load_patience).map_err(|failure| failure.reason)?.samples;
        Ok(gang)
    }

    /// Carries out a step on all ranks.
    pub(super) fn run(&self, order: Order) -> Result<Done, Failure> {
        let order = Arc::new(order);
        for give in &self.orders {
            if give.send(Arc::clone(&order)).is_err() {
                return Err(Failure { reason: "a rank has ended".to_owned(), is_loss: true });
            }
        }
        self.gather(self.patience)
    }

    /// One answer of each rank: the tokens of the first, the time of the slowest, or the first fault.
    fn gather(&self, patience: Duration) -> Result<Done, Failure> {
        let until = Instant::now() + patience;
        let (mut whole, mut failure, mut heaviest) = (Done::default(), None::<Failure>, 0);
        for _ in &self.orders {
            let left = until.saturating_duration_since(Instant::now());
            let answer = self.answers.recv_timeout(left).map_err(|error| Failure {
                reason: match error {
                    RecvTimeoutError::Timeout => format!("a NeuronCore did not answer within {patience:?}"),
                    RecvTimeoutError::Disconnected => "a rank has ended".to_owned(),
                },
                is_loss: true,
            });
            // Ranks that wait for a failed one in a collective never answer: its fault says more than their silence.
            let answer = match (answer, failure.take()) {
                (Err(_), Some(first)) => return Err(Failure { is_loss: true, ..first }),
                (answer, first) => {
                    failure = first;
                    answer?
                }
            };
            match answer.result {
                Ok(done) => {
                    whole.device = whole.device.max(done.device);
                    if answer.rank == 0 {
                        whole.tokens = done.tokens;
                        whole.samples = done.samples;
                    }
                }
                Err(fault) => {
                    let (is_loss, weight) = weight(&fault);
                    let was_loss = failure.as_ref().is_some_and(|first| first.is_loss);
                    if weight >= heaviest {
                        heaviest = weight + 1;
                        failure = Some(Failure { reason: format!("rank {}: {fault}", answer.rank), is_loss });
                    }
                    if let Some(failure) = &mut failure {
                        failure.is_loss |= is_loss || was_loss;
                    }
                }
            }
        }
        failure.map_or(Ok(whole), Err)
    }

    /// Whether every graph takes settings of how tokens are picked; else the likeliest is.
    pub(super) fn samples(&self) -> bool {
        self.samples
    }

    pub(super) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Bytes of device memory in use on the cores from `first` on, and how many there are; unknown where the runtime does
    /// not say.
    pub(super) fn memory(&self, first: u32) -> Option<(u64, u64)> {
        let cores = first..first + u32::try_from(self.orders.len()).ok()?;
        cores.map(|core| self.runtime.memory(core).ok()).try_fold((0, 0), |sum, core| {
            let (used, limit) = core?;
            Some((sum.0 + used, sum.1 + limit))
        })
    }
}

/// Whether the device is lost with a fault, and how much it says: of several ranks the one that failed knows more than those that
/// waited for it, and a loss is worse than a failed step.
fn weight(fault: &Fault) -> (bool, u32) {
    match fault {
        Fault::Device(fault) if fault.is_timeout() => (true, 0),
        Fault::Device(fault) if fault.is_loss() => (true, 2),
        _ => (false, 1),
    }
}

impl Drop for Gang {
    fn drop(&mut self) {
        self.dismiss();
    }
}

impl Gang {
    /// Gives everything back. False where a rank hangs in the device and keeps it.
    pub(super) fn leave(mut self) -> bool {
        self.dismiss()
    }

    /// Waits for the ranks to unload, but not for one that hangs in the device.
    fn dismiss(&mut self) -> bool {
        self.orders.clear();
        let until = Instant::now() + LEAVE;
        while self.threads.iter().any(|thread| !thread.is_finished()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut all = true;
        for thread in self.threads.drain(..) {
            all &= thread.is_finished();
            if thread.is_finished() && thread.join().is_err() {
                tracing::error!("a rank of the neuron engine panicked");
            }
        }
        all
    }
}

/// Says what is missing where there is no device at all.
fn no_device(fault: &ffi::Fault) -> String {
    let is_call = matches!(fault, ffi::Fault::Call { .. });
    if is_call && !Path::new("/dev/neuron0").exists() {
        return format!(
            "{fault}; this machine has no Neuron device (/dev/neuron0), the engines `sim` and `cpu` need none"
        );
    }
    fault.to_string()
}
