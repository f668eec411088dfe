//! Weights of one rank, from a safetensors file, a piece at a time: a shard can be larger than the host's free memory.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::ffi::{self, Tensor};

/// Longest header, and bytes of a piece on its way to the device.
const HEADER_MAX: u64 = 64 << 20;
const PIECE: usize = 8 << 20;

/// A file of weights.
pub(super) struct Shard {
    path: PathBuf,
    file: File,
    /// Where the tensors' bytes begin.
    base: u64,
    entries: HashMap<String, Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    dtype: String,
    data_offsets: (u64, u64),
}

/// Types of safetensors and what libnrt calls them (`nrt_dtype_t`).
const DTYPES: &[(&str, u32)] = &[
    ("I8", 0x2),
    ("U8", 0x3),
    ("I16", 0x4),
    ("U16", 0x5),
    ("BF16", 0x6),
    ("F16", 0x7),
    ("I32", 0x8),
    ("U32", 0x9),
    ("F32", 0xA),
    ("I64", 0xC),
];
/// `NRT_DTYPE_INT8`.
pub(super) const INT8: u32 = 0x2;

impl Shard {
    /// Opens the file of a rank.
    ///
    /// # Errors
    /// If there is none, or it is no safetensors file.
    pub(super) fn open(folder: &Path, rank: u32) -> Result<Self, String> {
        let path = folder.join(format!("weights/tp{rank}_sharded_checkpoint.safetensors"));
        let shard = Self::read(&path);
        shard.map_err(|fault| format!("{}: {fault}", path.display()))
    }

    fn read(path: &Path) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        let size = file.metadata().map_err(|error| error.to_string())?.len();
        let mut length = [0; 8];
        file.read_exact_at(&mut length, 0).map_err(|error| error.to_string())?;
        let length = u64::from_le_bytes(length);
        let base = length.checked_add(8).filter(|base| length <= HEADER_MAX && *base <= size);
        let base = base.ok_or("the length of its header cannot be")?;
        let mut header = vec![0; length as usize];
        file.read_exact_at(&mut header, 8).map_err(|error| error.to_string())?;
        let mut values: HashMap<String, serde_json::Value> =
            serde_json::from_slice(&header).map_err(|error| error.to_string())?;
        values.remove("__metadata__");
        let mut entries = HashMap::with_capacity(values.len());
        for (name, value) in values {
            let entry: Entry = serde_json::from_value(value).map_err(|error| format!("{name}: {error}"))?;
            let (from, to) = entry.data_offsets;
            if from > to || base.checked_add(to).is_none_or(|end| end > size) {
                return Err(format!("{name} lies outside the file"));
            }
            entries.insert(name, entry);
        }
        Ok(Self { path: path.to_owned(), file, base, entries })
    }

    /// Copies a weight to the device.
    ///
    /// # Errors
    /// If the file has it not, or not as the graph wants it.
    pub(super) fn copy(&self, name: &str, dtype: u32, tensor: &Tensor) -> Result<(), Fault> {
        let fault = |text: String| Fault::File(format!("{}: {text}", self.path.display()));
        let entry = self.entries.get(name).ok_or_else(|| fault(format!("has no weight `{name}`")))?;
        if DTYPES.iter().all(|(known, code)| *known != entry.dtype || *code != dtype) {
            return Err(fault(format!("`{name}` is {}, the graph wants {}", entry.dtype, name_of(dtype))));
        }
        let (from, to) = entry.data_offsets;
        if to - from != tensor.bytes() as u64 {
            return Err(fault(format!("`{name}` has {} bytes, the graph wants {}", to - from, tensor.bytes())));
        }
        let mut piece = vec![0; PIECE.min(tensor.bytes())];
        let mut done = 0;
        while done < tensor.bytes() {
            let part = &mut piece[..PIECE.min(tensor.bytes() - done)];
            let read = self.file.read_exact_at(part, self.base + from + done as u64);
            read.map_err(|error| fault(format!("read `{name}`: {error}")))?;
            tensor.write(done, part).map_err(Fault::Device)?;
            done += part.len();
        }
        Ok(())
    }
}

/// What libnrt's type is called.
pub(super) fn name_of(dtype: u32) -> String {
    let known = DTYPES.iter().find(|(_, code)| *code == dtype);
    known.map_or_else(|| format!("type {dtype:#x}"), |(name, _)| (*name).to_owned())
}

/// Why a weight is not on the device.
pub(super) enum Fault {
    File(String),
    Device(ffi::Fault),
}
