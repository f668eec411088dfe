//! libnrt's C interface behind handles that keep its rules: what is loaded is unloaded once, a tensor outlives the sets it is in,
//! and the runtime closes last.
//!
//! Handles are not `Send`: each belongs to the thread of its rank. Signatures: `nrt/nrt.h` and `nrt/nrt_experimental.h` of the
//! Neuron SDK 2.32, API 2.0.

#![allow(unsafe_code, reason = "a C library has no other interface; nothing outside this module is unsafe")]

mod abi;

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::{ManuallyDrop, size_of};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::rc::Rc;
use std::slice;
use std::sync::Arc;

use libloading::Library;
use parking_lot::Mutex;

use self::abi::{InstanceInfo, MemoryStats, RawTensorInfo, RawTensorInfos, Symbols};
use super::status::{SUCCESS, Status, TIMEOUT};

/// `NRT_FRAMEWORK_TYPE_NO_FW`.
const NO_FRAMEWORK: c_int = 1;
/// `NRT_TENSOR_PLACEMENT_DEVICE`.
const ON_DEVICE: c_int = 0;
/// `vnc_count` is deprecated.
const DEPRECATED: i32 = -1;
/// More tensors than a graph has.
const TENSORS_MAX: u64 = 1 << 20;

/// What went wrong with libnrt.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// The library cannot be opened.
    #[error(
        "{} cannot be opened ({reason}); is the AWS Neuron runtime installed here? The engines `sim` and `cpu` need none",
        path.display()
    )]
    Library { path: PathBuf, reason: String },
    /// The library lacks a function.
    #[error("{} is no libnrt of API 2.0: it lacks `{name}`", path.display())]
    Symbol { path: PathBuf, name: &'static str },
    /// Another engine of this process has it.
    #[error("{} is in use by another engine of this process; NeuronCores are claimed once a process", path.display())]
    InUse { path: PathBuf },
    /// A call failed.
    #[error("{call}: {status}")]
    Call { call: String, status: Status },
    /// A call succeeded and gave nothing, or something that cannot be.
    #[error("{call} gave {what}")]
    Nonsense { call: &'static str, what: &'static str },
}

impl Fault {
    /// Whether it may be no fault of this rank: it waited for another one.
    pub(super) fn is_timeout(&self) -> bool {
        matches!(self, Self::Call { status, .. } if status.0 == TIMEOUT)
    }

    /// Whether the device is lost with it.
    pub(super) fn is_loss(&self) -> bool {
        match self {
            Self::Call { status, .. } => status.is_loss(),
            _ => true,
        }
    }
}

fn check(call: impl FnOnce() -> String, status: u32) -> Result<(), Fault> {
    if status == SUCCESS { Ok(()) } else { Err(Fault::Call { call: call(), status: Status(status) }) }
}

fn given(call: &'static str, handle: *mut c_void) -> Result<*mut c_void, Fault> {
    if handle.is_null() { Err(Fault::Nonsense { call, what: "no handle" }) } else { Ok(handle) }
}

/// Libraries that an engine of this process has initialised.
static CLAIMED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The right to initialise a library.
struct Claim(PathBuf);

impl Claim {
    fn take(path: &Path) -> Result<Self, Fault> {
        if CLAIMED.lock().insert(path.to_owned()) {
            Ok(Self(path.to_owned()))
        } else {
            Err(Fault::InUse { path: path.to_owned() })
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        CLAIMED.lock().remove(&self.0);
    }
}

/// The initialised runtime. It is closed when the last handle is gone.
pub(super) struct Runtime {
    symbols: Symbols,
    /// The library starts threads of its own; its code stays where it is.
    _library: ManuallyDrop<Library>,
    _claim: Claim,
}

/// The machine, as the runtime sees it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Machine {
    /// Instance family: 2 is Trn1, 4 is Inf2.
    pub(super) family: u32,
    /// NeuronCores that this process may use.
    pub(super) cores: u32,
}

impl Runtime {
    /// Opens and initialises the library.
    pub(super) fn open(path: &Path) -> Result<Arc<Self>, Fault> {
        let claim = Claim::take(path)?;
        // SAFETY: libnrt's initialisers have no preconditions; whoever configures the path vouches for the library.
        let library = unsafe { Library::new(path) };
        let library = library.map_err(|error| Fault::Library { path: path.to_owned(), reason: error.to_string() })?;
        let library = ManuallyDrop::new(library);
        let symbols = Symbols::find(&library, path)?;
        // SAFETY: the strings are static and end in NUL.
        let status = unsafe { (symbols.init)(NO_FRAMEWORK, c"".as_ptr(), c"".as_ptr()) };
        check(|| "nrt_init".to_owned(), status)?;
        Ok(Arc::new(Self { symbols, _library: library, _claim: claim }))
    }

    pub(super) fn machine(&self) -> Result<Machine, Fault> {
        let mut cores = 0;
        // SAFETY: the pointer is to a u32 that lives through the call.
        check(|| "nrt_get_visible_vnc_count".to_owned(), unsafe { (self.symbols.visible_cores)(&mut cores) })?;
        let mut info = InstanceInfo { family: 0, size: 0, arch_name: [0; 16], device_revision: [0; 8] };
        // SAFETY: the pointer is to a struct of the size given.
        let status = unsafe { (self.symbols.instance_info)(&mut info, size_of::<InstanceInfo>()) };
        check(|| "nrt_get_instance_info".to_owned(), status)?;
        Ok(Machine { family: info.family, cores })
    }

    /// Bytes of device memory in use on a core, and how many there are.
    pub(super) fn memory(&self, core: u32) -> Result<(u64, u64), Fault> {
        let (mut stats, mut written) = (MemoryStats::default(), 0);
        // SAFETY: the pointers are to a struct of the size given and to a usize.
        let status = unsafe { (self.symbols.memory_stats)(core, &mut stats, size_of::<MemoryStats>(), &mut written) };
        check(|| format!("nrt_get_vnc_memory_stats of core {core}"), status)?;
        Ok((stats.bytes_used as u64, stats.bytes_limit as u64))
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // SAFETY: the runtime is initialised, and every handle holds it, so that none is left.
        unsafe { (self.symbols.close)() }
    }
}

/// Whether a tensor goes into a graph or comes out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Usage {
    Input,
    Output,
}

/// A tensor that a graph takes or gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TensorInfo {
    pub(super) name: String,
    pub(super) usage: Usage,
    pub(super) bytes: usize,
    /// `nrt_dtype_t`.
    pub(super) dtype: u32,
}

/// A loaded graph.
pub(super) struct Model {
    runtime: Arc<Runtime>,
    raw: *mut c_void,
}

impl Model {
    /// Loads a NEFF onto `core`, as `rank` of several where there are several.
    pub(super) fn load(runtime: &Arc<Runtime>, neff: &[u8], core: i32, rank: u32, ranks: u32) -> Result<Self, Fault> {
        let (symbols, bytes, mut raw) = (&runtime.symbols, neff.as_ptr().cast(), null_mut());
        // SAFETY: the bytes live through the call, which copies what it keeps; `raw` takes a pointer.
        let (name, status) = unsafe {
            match ranks {
                1 => ("nrt_load", (symbols.load)(bytes, neff.len(), core, DEPRECATED, &mut raw)),
                _ => (
                    "nrt_load_collectives",
                    (symbols.load_collectives)(bytes, neff.len(), core, DEPRECATED, rank, ranks, &mut raw),
                ),
            }
        };
        check(|| format!("{name} of rank {rank} on core {core}"), status)?;
        Ok(Self { raw: given("nrt_load", raw)?, runtime: Arc::clone(runtime) })
    }

    /// The tensors that the graph takes and gives.
    pub(super) fn tensors(&self) -> Result<Vec<TensorInfo>, Fault> {
        const CALL: &str = "nrt_get_model_tensor_info";
        let symbols = &self.runtime.symbols;
        let mut raw: *mut RawTensorInfos = null_mut();
        // SAFETY: the model is loaded; `raw` takes a pointer, which is freed below.
        check(|| CALL.to_owned(), unsafe { (symbols.tensor_infos)(self.raw, &mut raw) })?;
        given(CALL, raw.cast())?;
        // SAFETY: the library gave a head with its count, and that many entries behind it.
        let infos = unsafe {
            match (*raw).count {
                count if count > TENSORS_MAX => Err(Fault::Nonsense { call: CALL, what: "too many tensors" }),
                count => {
                    let first = (&raw const (*raw).first).cast::<RawTensorInfo>();
                    slice::from_raw_parts(first, count as usize).iter().map(RawTensorInfo::read).collect()
                }
            }
        };
        // SAFETY: it was given by the call above and is not used after this.
        check(|| "nrt_free_model_tensor_info".to_owned(), unsafe { (symbols.free_tensor_infos)(raw) })?;
        infos
    }

    /// Runs the graph. The sets hold their tensors, so that all of them live.
    pub(super) fn execute(&self, input: &TensorSet, output: &mut TensorSet) -> Result<(), Fault> {
        // SAFETY: model and sets are valid, and the calling thread is the only one that has them.
        let status = unsafe { (self.runtime.symbols.execute)(self.raw, input.raw, output.raw) };
        check(|| "nrt_execute".to_owned(), status)
    }
}

impl RawTensorInfo {
    fn read(&self) -> Result<TensorInfo, Fault> {
        let nonsense = |what| Fault::Nonsense { call: "nrt_get_model_tensor_info", what };
        let bytes: Vec<u8> = self.name.iter().map(|byte| byte.cast_unsigned()).collect();
        let name = CStr::from_bytes_until_nul(&bytes).ok().and_then(|name| name.to_str().ok());
        Ok(TensorInfo {
            name: name.ok_or_else(|| nonsense("a tensor without a name"))?.to_owned(),
            usage: match self.usage {
                0 => Usage::Input,
                1 => Usage::Output,
                _ => return Err(nonsense("a tensor that is neither input nor output")),
            },
            bytes: self.size,
            dtype: self.dtype,
        })
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: loaded once, unloaded once.
        let status = unsafe { (self.runtime.symbols.unload)(self.raw) };
        if let Err(fault) = check(|| "nrt_unload".to_owned(), status) {
            tracing::warn!(%fault, "a graph could not be unloaded");
        }
    }
}

/// Memory on a device.
pub(super) struct Tensor {
    runtime: Arc<Runtime>,
    raw: *mut c_void,
    bytes: usize,
}

impl Tensor {
    /// Memory of that many bytes, all 0.
    pub(super) fn allocate(runtime: &Arc<Runtime>, core: i32, bytes: usize, name: &str) -> Result<Rc<Self>, Fault> {
        let label = c_name(name)?;
        let mut raw = null_mut();
        // SAFETY: the name lives through the call; `raw` takes a pointer.
        let status = unsafe { (runtime.symbols.tensor_allocate)(ON_DEVICE, core, bytes, label.as_ptr(), &mut raw) };
        check(|| format!("nrt_tensor_allocate of {bytes} bytes for {name} on core {core}"), status)?;
        let raw = given("nrt_tensor_allocate", raw)?;
        let tensor = Self { runtime: Arc::clone(runtime), raw, bytes };
        // SAFETY: the tensor has that many bytes.
        let status = unsafe { (runtime.symbols.tensor_memset)(raw, 0, 0, bytes) };
        check(|| format!("nrt_tensor_memset of {name}"), status)?;
        Ok(Rc::new(tensor))
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Fault> {
        self.holds(offset, bytes.len())?;
        // SAFETY: both ranges are checked.
        let status =
            unsafe { (self.runtime.symbols.tensor_write)(self.raw, bytes.as_ptr().cast(), offset, bytes.len()) };
        check(|| "nrt_tensor_write".to_owned(), status)
    }

    pub(super) fn read(&self) -> Result<Vec<u8>, Fault> {
        let mut bytes = vec![0; self.bytes];
        // SAFETY: the buffer is as long as the tensor.
        let status = unsafe { (self.runtime.symbols.tensor_read)(self.raw, bytes.as_mut_ptr().cast(), 0, bytes.len()) };
        check(|| "nrt_tensor_read".to_owned(), status)?;
        Ok(bytes)
    }

    fn holds(&self, offset: usize, bytes: usize) -> Result<(), Fault> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(Fault::Nonsense { call: "a write", what: "more bytes than the tensor has" }),
        }
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // SAFETY: allocated once, freed once; sets that it was in are gone, since they hold it.
        unsafe { (self.runtime.symbols.tensor_free)(&mut self.raw) }
    }
}

/// The tensors of one side of a graph.
pub(super) struct TensorSet {
    runtime: Arc<Runtime>,
    raw: *mut c_void,
    tensors: Vec<Rc<Tensor>>,
}

impl TensorSet {
    pub(super) fn allocate(runtime: &Arc<Runtime>) -> Result<Self, Fault> {
        let mut raw = null_mut();
        // SAFETY: `raw` takes a pointer.
        check(|| "nrt_allocate_tensor_set".to_owned(), unsafe { (runtime.symbols.allocate_set)(&mut raw) })?;
        let raw = given("nrt_allocate_tensor_set", raw)?;
        Ok(Self { runtime: Arc::clone(runtime), raw, tensors: Vec::new() })
    }

    /// Adds a tensor under the graph's name for it.
    pub(super) fn add(&mut self, name: &str, tensor: &Rc<Tensor>) -> Result<(), Fault> {
        let label = c_name(name)?;
        self.tensors.push(Rc::clone(tensor));
        // SAFETY: set and tensor are valid, the set holds the tensor from here on, and the name lives through the call.
        let status = unsafe { (self.runtime.symbols.add_tensor)(self.raw, label.as_ptr(), tensor.raw) };
        check(|| format!("nrt_add_tensor_to_tensor_set of {name}"), status)
    }
}

impl Drop for TensorSet {
    fn drop(&mut self) {
        // SAFETY: allocated once, destroyed once; its tensors are dropped after this.
        unsafe { (self.runtime.symbols.destroy_set)(&mut self.raw) }
    }
}

fn c_name(name: &str) -> Result<CString, Fault> {
    CString::new(name).map_err(|_| Fault::Nonsense { call: "a name", what: "a NUL" })
}

/// Nothing here is shared between threads but the runtime itself.
const _: fn() = || {
    fn shared<T: Send + Sync>() {}
    shared::<Runtime>();
};
