//! The status codes of libnrt, named, and what each means for the node.

use std::fmt;

/// What a call of libnrt returned; never success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status(pub(super) u32);

/// `NRT_TIMEOUT`: also what ranks say that waited for a failed one.
pub(super) const TIMEOUT: u32 = 5;
/// `NRT_SUCCESS`.
pub(super) const SUCCESS: u32 = 0;

/// Code, name, meaning, and whether the device is lost with it. Source: `nrt/nrt_status.h` of the Neuron SDK 2.32.
const CODES: &[(u32, &str, &str, bool)] = &[
    (1, "NRT_FAILURE", "unspecific failure", true),
    (2, "NRT_INVALID", "invalid NEFF or argument", false),
    (3, "NRT_INVALID_HANDLE", "invalid handle", true),
    (4, "NRT_RESOURCE", "out of a resource", false),
    (5, "NRT_TIMEOUT", "timed out", true),
    (6, "NRT_HW_ERROR", "hardware failure", true),
    (7, "NRT_QUEUE_FULL", "execution queue is full", false),
    (9, "NRT_LOAD_NOT_ENOUGH_NC", "not enough NeuronCores", false),
    (10, "NRT_UNSUPPORTED_NEFF_VERSION", "NEFF of a version that this runtime does not support", false),
    (11, "NRT_FAIL_HOST_MEM_ALLOC", "out of host memory", false),
    (13, "NRT_UNINITIALIZED", "runtime is not initialised", true),
    (14, "NRT_CLOSED", "runtime is closed", true),
    (15, "NRT_QUEUE_EMPTY", "execution queue is empty", false),
    (101, "NRT_EXEC_UNIT_UNRECOVERABLE", "execution unit does not recover", true),
    (1002, "NRT_EXEC_BAD_INPUT", "bad input", false),
    (1003, "NRT_EXEC_COMPLETED_WITH_NUM_ERR", "numerical error, such as a NaN", false),
    (1004, "NRT_EXEC_COMPLETED_WITH_ERR", "execution error", false),
    (1005, "NRT_EXEC_NC_BUSY", "NeuronCore is in use by another model or process", false),
    (1006, "NRT_EXEC_OOB", "access out of bounds", false),
    (1100, "NRT_COLL_PENDING", "collective operation is pending", false),
    (1200, "NRT_EXEC_HW_ERR_COLLECTIVES", "hardware error in a collective operation", true),
    (1201, "NRT_EXEC_HW_ERR_HBM_UE", "uncorrectable error in device memory", true),
    (1202, "NRT_EXEC_HW_ERR_NC_UE", "uncorrectable error in a NeuronCore", true),
    (1203, "NRT_EXEC_HW_ERR_DMA_ABORT", "DMA was aborted", true),
    (1204, "NRT_EXEC_SW_NQ_OVERFLOW", "notification queue ran over", false),
    (1205, "NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE", "repairable uncorrectable error in device memory", true),
    (1206, "NRT_NETWORK_PROXY_FAILURE", "network proxy failed", true),
];

impl Status {
    fn known(self) -> Option<&'static (u32, &'static str, &'static str, bool)> {
        CODES.iter().find(|(code, ..)| *code == self.0)
    }

    /// Whether nothing that the device holds can be relied on any more. So it is with a code that nobody knows.
    pub(super) fn is_loss(self) -> bool {
        self.known().is_none_or(|(.., lost)| *lost)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.known() {
            Some((code, name, meaning, _)) => write!(f, "{meaning} ({name}, {code})"),
            None => write!(f, "unknown status {}", self.0),
        }
    }
}

/// All codes there are.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = (u32, &'static str, bool)> {
    CODES.iter().map(|(code, name, _, lost)| (*code, *name, *lost))
}
