//! How much a plan may read, from what the tables' logs say of their files: known before the first byte is read.

use std::{collections::BTreeSet, sync::Arc};

use datafusion::{
    common::{Result, resources_err},
    datasource::{physical_plan::FileScanConfig, source::DataSourceExec},
    physical_plan::ExecutionPlan,
};

use crate::config::Config;

/// What is left of the files after dates and bounds left out what cannot match.
#[derive(Debug, Default)]
struct Reach {
    files: BTreeSet<String>,
    bytes: u64,
}

/// # Errors
/// `ResourcesExhausted` if the plan may read more files, or bytes of them, than one query may.
pub(super) fn check(plan: &Arc<dyn ExecutionPlan>, config: &Config) -> Result<()> {
    let mut reach = Reach::default();
    reach.add(plan);
    let (files, bytes) = (reach.files.len(), reach.bytes);
    if bytes > config.scan_bytes_max {
        return resources_err!(
            "the query may read {bytes} bytes in {files} files, more than the {} that one may (query.scan_bytes_max)",
            config.scan_bytes_max
        );
    }
    if files > config.scan_files_max {
        return resources_err!(
            "the query may read {files} files of {bytes} bytes, more than the {} files that one may (query.scan_files_max)",
            config.scan_files_max
        );
    }
    Ok(())
}

impl Reach {
    fn add(&mut self, plan: &Arc<dyn ExecutionPlan>) {
        if let Some(source) = plan.downcast_ref::<DataSourceExec>()
            && let Some(scan) = source.data_source().downcast_ref::<FileScanConfig>()
        {
            for file in scan.file_groups.iter().flat_map(|group| group.iter()) {
                self.files.insert(file.object_meta.location.to_string());
                // A large file is read in parts by several threads.
                let part = file.range.as_ref().and_then(|range| u64::try_from(range.end - range.start).ok());
                self.bytes = self.bytes.saturating_add(part.unwrap_or(file.object_meta.size));
            }
        }
        plan.children().into_iter().for_each(|child| self.add(child));
    }
}
