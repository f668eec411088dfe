//! Paths that a pattern names: `*` and `?` within a name, `**` for any number of folders.

use std::fs;
use std::path::{Path, PathBuf};

/// Deepest folder that `**` looks into.
const DEPTH_MAX: usize = 16;
/// Entries of folders looked at for one pattern.
const ENTRIES_MAX: usize = 100_000;

/// The files that exist for a pattern, at most `limit`, in order of their paths. What cannot be listed has no files.
pub(super) fn files(pattern: &str, limit: usize) -> Vec<PathBuf> {
    let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
    let mut search = Search { found: Vec::new(), entries: 0 };
    search.walk(Path::new("/"), &parts, 0);
    search.found.sort();
    search.found.dedup();
    search.found.truncate(limit);
    search.found
}

/// Whether a pattern names a path.
pub(super) fn matches(pattern: &str, path: &str) -> bool {
    let split = |text| -> Vec<&str> { str::split(text, '/').filter(|part| !part.is_empty()).collect() };
    parts_match(&split(pattern), &split(path))
}

fn parts_match(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern, path) {
        ([], []) => true,
        (["**", rest @ ..], path) => {
            (0..=path.len()).any(|skip| parts_match(rest, path.get(skip..).unwrap_or_default()))
        }
        ([first, rest @ ..], [name, below @ ..]) => name_matches(first, name) && parts_match(rest, below),
        _ => false,
    }
}

/// Whether a name fits one part of a pattern. Linear: after a failure only the last `*` takes one more character.
pub(super) fn name_matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut from) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while from < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(mark) if *mark == '?' || name.get(from) == Some(mark) => {
                at += 1;
                from += 1;
            }
            _ => {
                let Some((place, taken)) = star else { return false };
                star = Some((place, taken + 1));
                (at, from) = (place + 1, taken + 1);
            }
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|mark| *mark == '*')
}

struct Search {
    found: Vec<PathBuf>,
    entries: usize,
}

impl Search {
    fn walk(&mut self, directory: &Path, parts: &[&str], depth: usize) {
        let Some((first, rest)) = parts.split_first() else { return };
        if *first == "**" {
            self.walk(directory, rest, depth);
            if depth < DEPTH_MAX {
                for (path, _) in self.list(directory) {
                    if fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) {
                        self.walk(&path, parts, depth + 1);
                    }
                }
            }
            return;
        }
        if !first.contains(['*', '?']) {
            self.take(directory.join(first), rest, depth);
            return;
        }
        for (path, name) in self.list(directory) {
            if name_matches(first, &name) {
                self.take(path, rest, depth);
            }
        }
    }

    fn take(&mut self, path: PathBuf, rest: &[&str], depth: usize) {
        if !rest.is_empty() {
            self.walk(&path, rest, depth);
        } else if fs::metadata(&path).is_ok_and(|found| found.is_file()) {
            self.found.push(path);
        }
    }

    fn list(&mut self, directory: &Path) -> Vec<(PathBuf, String)> {
        let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
        let room = ENTRIES_MAX.saturating_sub(self.entries);
        let named = |entry: fs::DirEntry| (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let listed: Vec<_> = entries.filter_map(Result::ok).take(room).map(named).collect();
        self.entries += listed.len();
        listed
    }
}
