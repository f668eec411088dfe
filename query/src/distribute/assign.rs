//! Which worker reads which file: always the same, as far as the workers are.

use std::sync::Arc;

use datafusion::{
    common::Result,
    datasource::{
        physical_plan::{FileGroup, FileScanConfig},
        source::DataSourceExec,
    },
    physical_plan::ExecutionPlan,
};
use datafusion_distributed::{
    DistributedLeafExec, RouteTasksEvent, RouteTasksEventResponse, RouteTasksHandler, ScaleUpLeafNodeEvent,
    ScaleUpLeafNodeEventResponse, ScaleUpLeafNodeHandler,
};
use url::Url;

/// The workers of one query, in an order that does not change while they are the same.
#[derive(Clone)]
pub(super) struct Assigned {
    pub(super) workers: Arc<[Url]>,
}

/// Deals a scan's files: those of a group stay in a group and in their order, each at the worker that draws the file.
impl ScaleUpLeafNodeHandler for Assigned {
    fn handle(&self, event: ScaleUpLeafNodeEvent<'_>) -> Option<Result<ScaleUpLeafNodeEventResponse>> {
        let source = event.plan.downcast_ref::<DataSourceExec>()?;
        let scan = source.data_source().downcast_ref::<FileScanConfig>()?;
        let workers = self.workers.get(..event.task_count)?;
        let parts = (0..workers.len()).map(|task| {
            let own = |group: &FileGroup| {
                let files =
                    group.files().iter().filter(|file| drawn(file.object_meta.location.as_ref(), workers) == task);
                FileGroup::new(files.cloned().collect())
            };
            let mut part = scan.clone();
            part.file_groups = scan.file_groups.iter().map(own).collect();
            DataSourceExec::from_data_source(part) as Arc<dyn ExecutionPlan>
        });
        let leaf = DistributedLeafExec::try_new(Arc::clone(event.plan), parts);
        Some(leaf.map(|leaf| ScaleUpLeafNodeEventResponse::new(Arc::new(leaf))))
    }
}

/// Sends part `n` of every stage to worker `n`. A stage of one part is left to go where its rows come from.
impl RouteTasksHandler for Assigned {
    fn handle(&self, event: RouteTasksEvent<'_>) -> Option<Result<RouteTasksEventResponse>> {
        let workers = self.workers.get(..event.task_count).filter(|workers| workers.len() > 1)?;
        Some(Ok(RouteTasksEventResponse::new(workers.to_vec())))
    }
}

/// The place of the worker that draws the highest number for the file. When a worker goes, only its files are drawn anew.
fn drawn(path: &str, workers: &[Url]) -> usize {
    let number = |worker: &Url| {
        let digest = hash(hash(SEED, worker.as_str().as_bytes()), path.as_bytes());
        // Its last bytes barely reach the high bits of the sum; mixed, every bit counts.
        (digest ^ (digest >> 32)).wrapping_mul(MIX)
    };
    let numbers = workers.iter().map(number).enumerate();
    numbers.max_by_key(|(place, number)| (*number, *place)).map_or(0, |(place, _)| place)
}

/// Offset basis and prime of FNV-1a, 64 bits: the same in every process, which a seeded hash is not.
const SEED: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;
/// An odd number with as many ones as zeros: the golden ratio in 64 bits.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

fn hash(from: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(from, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::drawn;

    fn workers(count: usize) -> Vec<Url> {
        (0..count).map(|at| Url::parse(&format!("http://10.0.0.{at}:8816")).expect("a url")).collect()
    }

    /// Every worker gets its share, and when one goes the others keep theirs.
    #[test]
    fn files_are_drawn_evenly_and_stay() {
        let paths: Vec<String> =
            (0..4_000).map(|at| format!("requests/date=2026-11-29/j-{at}-{}.parquet", at + 1)).collect();
        let four = workers(4);
        let places: Vec<usize> = paths.iter().map(|path| drawn(path, &four)).collect();
        for worker in 0..4 {
            let share = places.iter().filter(|place| **place == worker).count();
            assert!((800..1_200).contains(&share), "worker {worker} has {share} of 4000");
        }
        let three = &four[..3];
        for (path, place) in paths.iter().zip(&places).filter(|(_, place)| **place < 3) {
            assert_eq!(drawn(path, three), *place, "{path} moved although its worker stayed");
        }
    }
}
