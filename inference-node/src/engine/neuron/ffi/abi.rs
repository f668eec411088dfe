//! libnrt's types and functions, as C has them.

use std::ffi::{c_char, c_int, c_void};
use std::path::Path;

use libloading::Library;

use super::Fault;

/// `NRT_TENSOR_NAME_MAX`.
const NAME_BYTES: usize = 256;

/// `nrt_instance_info_t`.
#[repr(C)]
pub(super) struct InstanceInfo {
    pub(super) family: u32,
    pub(super) size: u32,
    pub(super) arch_name: [c_char; 16],
    pub(super) device_revision: [c_char; 8],
}

/// `nrt_vnc_memory_stats_t`.
#[repr(C)]
#[derive(Default)]
pub(super) struct MemoryStats {
    pub(super) bytes_used: usize,
    pub(super) bytes_limit: usize,
}

/// `nrt_tensor_info_t`.
#[repr(C)]
pub(super) struct RawTensorInfo {
    pub(super) name: [c_char; NAME_BYTES],
    pub(super) usage: u32,
    pub(super) size: usize,
    pub(super) dtype: u32,
    pub(super) shape: *const u32,
    pub(super) ndim: u32,
}

/// The head of `nrt_tensor_info_array_t`; the array follows.
#[repr(C)]
pub(super) struct RawTensorInfos {
    pub(super) count: u64,
    pub(super) first: [RawTensorInfo; 0],
}

/// Declares the functions of the library and how they are found.
macro_rules! symbols {
    ($($field:ident = $name:literal: fn($($argument:ty),*) $(-> $result:ty)?;)+) => {
        pub(super) struct Symbols { $(pub(super) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)+ }

        impl Symbols {
            pub(super) fn find(library: &Library, path: &Path) -> Result<Self, Fault> {
                Ok(Self {
                    // SAFETY: the type is the function's of that name in the header.
                    $($field: *unsafe { library.get(concat!($name, "\0").as_bytes()) }
                        .map_err(|_| Fault::Symbol { path: path.to_owned(), name: $name })?,)+
                })
            }
        }
    };
}

symbols! {
    init = "nrt_init": fn(c_int, *const c_char, *const c_char) -> u32;
    close = "nrt_close": fn();
    visible_cores = "nrt_get_visible_vnc_count": fn(*mut u32) -> u32;
    instance_info = "nrt_get_instance_info": fn(*mut InstanceInfo, usize) -> u32;
    memory_stats = "nrt_get_vnc_memory_stats": fn(u32, *mut MemoryStats, usize, *mut usize) -> u32;
    load = "nrt_load": fn(*const c_void, usize, i32, i32, *mut *mut c_void) -> u32;
    load_collectives = "nrt_load_collectives": fn(*const c_void, usize, i32, i32, u32, u32, *mut *mut c_void) -> u32;
    unload = "nrt_unload": fn(*mut c_void) -> u32;
    tensor_infos = "nrt_get_model_tensor_info": fn(*mut c_void, *mut *mut RawTensorInfos) -> u32;
    free_tensor_infos = "nrt_free_model_tensor_info": fn(*mut RawTensorInfos) -> u32;
    allocate_set = "nrt_allocate_tensor_set": fn(*mut *mut c_void) -> u32;
    destroy_set = "nrt_destroy_tensor_set": fn(*mut *mut c_void);
    add_tensor = "nrt_add_tensor_to_tensor_set": fn(*mut c_void, *const c_char, *mut c_void) -> u32;
    tensor_allocate = "nrt_tensor_allocate": fn(c_int, c_int, usize, *const c_char, *mut *mut c_void) -> u32;
    tensor_free = "nrt_tensor_free": fn(*mut *mut c_void);
    tensor_memset = "nrt_tensor_memset": fn(*mut c_void, u64, c_int, usize) -> u32;
    tensor_write = "nrt_tensor_write": fn(*mut c_void, *const c_void, usize, usize) -> u32;
    tensor_read = "nrt_tensor_read": fn(*const c_void, *mut c_void, usize, usize) -> u32;
    execute = "nrt_execute": fn(*mut c_void, *const c_void, *mut c_void) -> u32;
}
