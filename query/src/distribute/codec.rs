//! What of a plan only Tokenwatt knows, on its way to a worker. Functions travel by their names.

use std::sync::Arc;

use datafusion::{
    common::{Result, plan_err},
    execution::TaskContext,
    physical_plan::ExecutionPlan,
};
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};

use crate::plan::Barrier;

/// The name under which the barrier above a reader's own rows travels.
const BARRIER: &[u8] = b"tokenwatt.barrier";

/// Our operators as bytes and back.
#[derive(Debug)]
pub(super) struct OwnOperators;

impl PhysicalExtensionCodec for OwnOperators {
    fn try_decode(
        &self,
        name: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (name, inputs) {
            (BARRIER, [own]) => Ok(Arc::new(Barrier::above(Arc::clone(own)))),
            _ => plan_err!("a part of a plan is not known here"),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        name: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        if !node.is::<Barrier>() {
            return plan_err!("{} has no form in which it could travel", node.name());
        }
        name.extend_from_slice(BARRIER);
        Ok(())
    }
}
