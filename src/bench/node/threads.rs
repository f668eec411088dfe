//! CPU time of this process's threads, as the kernel counts it (`schedstat`).

use std::collections::BTreeMap;
use std::path::Path;

/// Nanoseconds by thread id, with the threads' names.
pub(super) struct Threads(BTreeMap<u32, (String, u64)>);

impl Threads {
    /// What all threads that live now have taken so far.
    pub(super) fn read() -> Self {
        let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
        let one = |entry: std::io::Result<std::fs::DirEntry>| {
            let entry = entry.ok()?;
            Some((entry.file_name().to_str()?.parse().ok()?, Self::of(&entry.path())?))
        };
        Self(tasks.filter_map(one).collect())
    }

    fn of(task: &Path) -> Option<(String, u64)> {
        let name = std::fs::read_to_string(task.join("comm")).ok()?.trim().to_owned();
        let ran = std::fs::read_to_string(task.join("schedstat")).ok()?;
        Some((name, ran.split_whitespace().next()?.parse().ok()?))
    }

    /// Nanoseconds that threads of that name took since then.
    pub(super) fn since(&self, before: &Self, name: &str) -> f64 {
        self.all_since(before, |called| called == name)
    }

    /// Nanoseconds that all other threads than those of these names took since then.
    pub(super) fn others_since(&self, before: &Self, names: &[&str]) -> f64 {
        self.all_since(before, |called| !names.contains(&called))
    }

    fn all_since(&self, before: &Self, which: impl Fn(&str) -> bool) -> f64 {
        let own = self.0.iter().filter(|(_, (called, _))| which(called));
        own.map(|(id, (_, ran))| ran - before.0.get(id).map_or(0, |(_, ran)| *ran)).sum::<u64>() as f64
    }
}
