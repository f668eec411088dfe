//! One rank of a model: the thread that has a NeuronCore, its graphs and its share of weights and state.
//!
//! Ranks wait for one another inside the device's collectives, so every order goes to all of them at once.

use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

use super::ffi::{self, Model, Runtime, Tensor, TensorInfo, TensorSet, Usage};
use super::manifest::{Graph, Manifest, Phase, Weights};
use super::neff::Neffs;
use super::weights::{self, INT8, Shard};

/// `NRT_DTYPE_FLOAT32`, `NRT_DTYPE_INT32`, `NRT_DTYPE_INT64`, `NRT_DTYPE_UINT32`.
const F32: u32 = 0xA;
const I32: u32 = 0x8;
const I64: u32 = 0xC;
const U32: u32 = 0x9;

/// What a rank is made of.
#[derive(Clone)]
pub(super) struct Seat {
    pub(super) runtime: Arc<Runtime>,
    pub(super) manifest: Arc<Manifest>,
    pub(super) neffs: Arc<Neffs>,
    pub(super) folder: PathBuf,
    pub(super) rank: u32,
    pub(super) core: u32,
}

/// One step: the graph and what it is given, the same for every rank.
pub(super) struct Order {
    pub(super) graph: usize,
    pub(super) feed: Feed,
}

/// What a graph is given, one entry for each row; a mask has a row of the graph's length for each.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Feed {
    pub(super) tokens: Vec<i64>,
    pub(super) positions: Vec<i64>,
    pub(super) mask: Vec<i64>,
    pub(super) slots: Vec<i64>,
    /// Top-k, top-p and temperature of each row, as NxD Inference has them.
    pub(super) sampling: Vec<f32>,
}

/// What a rank says after it was loaded, and after every order.
pub(super) struct Answer {
    pub(super) rank: u32,
    pub(super) result: Result<Done, Fault>,
}

/// An order that was carried out.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// The new token of each row; of rank 0 alone.
    pub(super) tokens: Vec<i64>,
    /// Time inside the graph.
    pub(super) device: Duration,
    /// Whether every graph takes settings of how tokens are picked.
    pub(super) samples: bool,
}

/// Why a rank could not do it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error(transparent)]
    Device(#[from] ffi::Fault),
    #[error("{0}")]
    File(String),
}

impl From<weights::Fault> for Fault {
    fn from(fault: weights::Fault) -> Self {
        match fault {
            weights::Fault::File(text) => Self::File(text),
            weights::Fault::Device(fault) => Self::Device(fault),
        }
    }
}

/// Loads the rank, then carries out orders until nobody can give any.
pub(super) fn run(seat: &Seat, orders: &Receiver<Arc<Order>>, answers: &SyncSender<Answer>) {
    let rank = seat.rank;
    let say = |result| answers.send(Answer { rank, result }).is_ok();
    let mut loaded = match Rank::load(seat) {
        Ok(loaded) => loaded,
        Err(fault) => {
            say(Err(fault));
            return;
        }
    };
    let samples = loaded.graphs.iter().all(|graph| graph.roles.iter().any(|(role, ..)| *role == Role::Sampling));
    if !say(Ok(Done { samples, ..Done::default() })) {
        return;
    }
    while let Ok(order) = orders.recv() {
        let result = loaded.carry_out(&order);
        if !say(result) {
            return;
        }
    }
}

/// What a rank holds on its core. Sets go before the graphs, and tensors with the last set that they are in.
struct Rank {
    graphs: Vec<Loaded>,
    is_first: bool,
}

struct Loaded {
    input: TensorSet,
    output: TensorSet,
    roles: Vec<(Role, u32, Rc<Tensor>)>,
    result: Rc<Tensor>,
    result_dtype: u32,
    model: Model,
}

/// What changes with every step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Tokens,
    Positions,
    Mask,
    Slots,
    Sampling,
}

impl Rank {
    fn load(seat: &Seat) -> Result<Self, Fault> {
        let shard = Shard::open(&seat.folder, seat.rank).map_err(Fault::File)?;
        let mut memory = Memory { seat, shard, kept: HashMap::new() };
        let graphs = seat.manifest.graphs.iter().enumerate();
        let graphs = graphs.map(|(index, graph)| memory.graph(index, graph)).collect::<Result<_, _>>()?;
        let has_int8 = memory.kept.values().any(|kept| kept.is_weight && kept.dtype == INT8);
        if (seat.manifest.weights == Weights::Int8) != has_int8 {
            return Err(Fault::File(format!(
                "neuron.json says that the weights are {}, and the graphs take {} weights of 8 bits",
                seat.manifest.weights.name(),
                if has_int8 { "some" } else { "no" },
            )));
        }
        Ok(Self { graphs, is_first: seat.rank == 0 })
    }

    fn carry_out(&mut self, order: &Order) -> Result<Done, Fault> {
        let missing = || Fault::File("no such graph".to_owned());
        let graph = self.graphs.get_mut(order.graph).ok_or_else(missing)?;
        for (role, dtype, tensor) in &graph.roles {
            tensor.write(0, &role.bytes(&order.feed, *dtype))?;
        }
        let begun = Instant::now();
        graph.model.execute(&graph.input, &mut graph.output)?;
        let device = begun.elapsed();
        let tokens = if self.is_first { whole(&graph.result.read()?, graph.result_dtype) } else { Vec::new() };
        Ok(Done { tokens, device, ..Done::default() })
    }
}

/// The rank's weights and state, shared by its graphs.
struct Memory<'a> {
    seat: &'a Seat,
    shard: Shard,
    kept: HashMap<String, Kept>,
}

struct Kept {
    tensor: Rc<Tensor>,
    dtype: u32,
    is_weight: bool,
}

impl Memory<'_> {
    fn graph(&mut self, index: usize, graph: &Graph) -> Result<Loaded, Fault> {
        let seat = self.seat;
        let path = seat.folder.join(&graph.neff);
        let neff = seat.neffs.take(index, &path);
        let neff = neff.map_err(|error| Fault::File(format!("{}: {error}", path.display())))?;
        let core = i32::try_from(seat.core).unwrap_or(i32::MAX);
        let model = Model::load(&seat.runtime, &neff, core, seat.rank, seat.manifest.tensor_parallel)
            .map_err(|fault| at(&graph.neff, &fault))?;
        drop(neff);
        let (mut input, mut output) = (TensorSet::allocate(&seat.runtime)?, TensorSet::allocate(&seat.runtime)?);
        let (mut roles, mut result) = (Vec::new(), None);
        for info in model.tensors()? {
            match (info.usage, seat.manifest.role(&info.name)) {
                (Usage::Input, Some(role)) => {
                    role.check(graph, &info, seat.manifest.slots)?;
                    let tensor = Tensor::allocate(&seat.runtime, core, info.bytes, &info.name)?;
                    input.add(&info.name, &tensor)?;
                    roles.push((role, info.dtype, tensor));
                }
                (Usage::Input, None) => input.add(&info.name, &self.kept(graph, &info, &info.name)?)?,
                (Usage::Output, _) if info.name == seat.manifest.tensors.output => {
                    let rows = rows(graph, seat.manifest.slots);
                    expect(graph, &info, rows, &[I32, I64, U32])?;
                    let tensor = Tensor::allocate(&seat.runtime, core, info.bytes, &info.name)?;
                    output.add(&info.name, &tensor)?;
                    result = Some((tensor, info.dtype));
                }
                (Usage::Output, _) => {
                    let state = seat.manifest.state.iter().find(|state| state.output == info.name);
                    let state = state.ok_or_else(|| wrong(graph, &format!("its output `{}` is unknown", info.name)))?;
                    output.add(&info.name, &self.kept(graph, &info, &state.input)?)?;
                }
            }
        }
        if !roles.iter().any(|(role, ..)| *role == Role::Tokens) {
            return Err(wrong(graph, "it takes no tokens"));
        }
        let (result, result_dtype) = result.ok_or_else(|| wrong(graph, "it gives no tokens"))?;
        Ok(Loaded { input, output, roles, result, result_dtype, model })
    }

    /// State, or a weight: made when the first graph wants it.
    fn kept(&mut self, graph: &Graph, info: &TensorInfo, name: &str) -> Result<Rc<Tensor>, Fault> {
        if let Some(kept) = self.kept.get(name) {
            if kept.tensor.bytes() != info.bytes || kept.dtype != info.dtype {
                return Err(wrong(graph, &format!("`{name}` is another than in the graphs before it")));
            }
            return Ok(Rc::clone(&kept.tensor));
        }
        let core = i32::try_from(self.seat.core).unwrap_or(i32::MAX);
        let tensor = Tensor::allocate(&self.seat.runtime, core, info.bytes, name)?;
        let is_weight = !self.seat.manifest.state.iter().any(|state| state.input == name);
        if is_weight {
            self.shard.copy(name, info.dtype, &tensor)?;
        }
        self.kept.insert(name.to_owned(), Kept { tensor: Rc::clone(&tensor), dtype: info.dtype, is_weight });
        Ok(tensor)
    }
}

impl Manifest {
    fn role(&self, name: &str) -> Option<Role> {
        let names = &self.tensors;
        let roles = [
            (&names.tokens, Role::Tokens),
            (&names.positions, Role::Positions),
            (&names.mask, Role::Mask),
            (&names.slots, Role::Slots),
            (&names.sampling, Role::Sampling),
        ];
        roles.into_iter().find(|(known, _)| *known == name).map(|(_, role)| role)
    }
}

impl Role {
    /// Refuses a graph that takes something else under this name.
    fn check(self, graph: &Graph, info: &TensorInfo, slots: u32) -> Result<(), Fault> {
        let (rows, length) = (rows(graph, slots), graph.length as usize);
        let per_row = match (self, graph.phase) {
            (Role::Tokens | Role::Positions, Phase::Prefill) | (Role::Mask, _) => length,
            (Role::Tokens | Role::Positions, Phase::Decode) | (Role::Slots, _) => 1,
            (Role::Sampling, _) => return expect(graph, info, rows * 3, &[F32]),
        };
        expect(graph, info, rows * per_row, &[I32, I64])
    }

    fn bytes(self, feed: &Feed, dtype: u32) -> Vec<u8> {
        let values = match self {
            Role::Tokens => &feed.tokens,
            Role::Positions => &feed.positions,
            Role::Mask => &feed.mask,
            Role::Slots => &feed.slots,
            Role::Sampling => return feed.sampling.iter().flat_map(|value| value.to_le_bytes()).collect(),
        };
        match dtype {
            I64 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            // Token ids, positions and slots are far below 2^31.
            _ => values.iter().flat_map(|value| (*value as i32).to_le_bytes()).collect(),
        }
    }
}

/// Sequences that a graph computes.
fn rows(graph: &Graph, slots: u32) -> usize {
    match graph.phase {
        Phase::Prefill => 1,
        Phase::Decode => slots as usize,
    }
}

fn expect(graph: &Graph, info: &TensorInfo, elements: usize, dtypes: &[u32]) -> Result<(), Fault> {
    let width = if info.dtype == I64 { 8 } else { 4 };
    if !dtypes.contains(&info.dtype) {
        return Err(wrong(graph, &format!("`{}` is {}", info.name, weights::name_of(info.dtype))));
    }
    if info.bytes != elements * width {
        let held = info.bytes / width;
        return Err(wrong(graph, &format!("`{}` holds {held} values, not {elements}", info.name)));
    }
    Ok(())
}

fn wrong(graph: &Graph, text: &str) -> Fault {
    Fault::File(format!("{} is not the graph that neuron.json says: {text}", graph.neff))
}

fn at(neff: &str, fault: &ffi::Fault) -> Fault {
    Fault::File(format!("{neff}: {fault}"))
}

fn whole(bytes: &[u8], dtype: u32) -> Vec<i64> {
    match dtype {
        I64 => bytes.as_chunks::<8>().0.iter().map(|value| i64::from_le_bytes(*value)).collect(),
        U32 => bytes.as_chunks::<4>().0.iter().map(|value| u32::from_le_bytes(*value).into()).collect(),
        _ => bytes.as_chunks::<4>().0.iter().map(|value| i32::from_le_bytes(*value).into()).collect(),
    }
}
