//! A disk that forgets what was not synced: all of it, some sectors of it, or nothing, when the power goes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::life::Life;
use crate::journal::disk::{Disk, DiskFile, Lock};

/// Bytes that a disk writes whole or not at all.
const SECTOR: usize = 512;

/// The disk of one machine; it outlives the processes on it.
#[derive(Clone)]
pub(super) struct Machine {
    platter: Arc<Mutex<Platter>>,
}

struct Platter {
    /// Names as a process sees them.
    names: BTreeMap<PathBuf, u64>,
    /// Names that survive a power cut, and what was done since.
    durable_names: BTreeMap<PathBuf, u64>,
    renamings: Vec<Renaming>,
    files: BTreeMap<u64, Contents>,
    made: u64,
    locks: BTreeSet<PathBuf>,
    /// Share of writes, syncs and cuts that fail.
    trouble: f64,
    full: bool,
    free: u64,
    rng: StdRng,
}

#[derive(Clone)]
enum Renaming {
    Set(PathBuf, u64),
    Gone(PathBuf),
}

#[derive(Clone, Default)]
struct Contents {
    seen: Vec<u8>,
    durable: Vec<u8>,
    changes: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Cut(usize),
}

impl Contents {
    fn change(&mut self, change: Change) {
        apply(&mut self.seen, &change);
        self.changes.push(change);
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write(at, new) => {
            bytes.resize(bytes.len().max(at + new.len()), 0);
            bytes[*at..at + new.len()].copy_from_slice(new);
        }
        Change::Cut(size) => bytes.resize(*size, 0),
    }
}

impl Machine {
    pub(super) fn new(seed: u64) -> Self {
        let platter = Platter {
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            renamings: Vec::new(),
            files: BTreeMap::new(),
            made: seed << 8,
            locks: BTreeSet::new(),
            trouble: 0.0,
            full: false,
            free: u64::MAX,
            rng: StdRng::seed_from_u64(seed),
        };
        Self { platter: Arc::new(Mutex::new(platter)) }
    }

    /// The disk as a process has it.
    pub(super) fn disk(&self, life: &Arc<Life>) -> SimDisk {
        SimDisk { machine: self.clone(), life: Arc::clone(life) }
    }

    /// Another machine with a copy of every file, made while nothing runs on this one and after what it had is on disk.
    pub(super) fn copy(&self, seed: u64) -> Machine {
        let copy = Machine::new(seed);
        let (mut from, mut to) = (self.platter.lock(), copy.platter.lock());
        from.durable_names = from.names.clone();
        from.renamings.clear();
        for contents in from.files.values_mut() {
            contents.durable = contents.seen.clone();
            contents.changes.clear();
        }
        for (path, file) in &from.names {
            to.made += 1;
            let made = to.made;
            let seen = from.files[file].seen.clone();
            to.files.insert(made, Contents { durable: seen.clone(), seen, changes: Vec::new() });
            to.names.insert(path.clone(), made);
        }
        to.durable_names = to.names.clone();
        drop(to);
        copy
    }

    pub(super) fn trouble(&self, share: f64, full: bool) {
        let mut platter = self.platter.lock();
        (platter.trouble, platter.full) = (share, full);
    }

    pub(super) fn set_free(&self, free: u64) {
        self.platter.lock().free = free;
    }

    /// Takes the power away: of what was not synced, names come back to some point, and sectors each as chance will have it.
    pub(super) fn cut_power(&self) {
        let mut platter = self.platter.lock();
        let Platter { names, durable_names, renamings, files, rng, .. } = &mut *platter;
        let kept = rng.random_range(0..=renamings.len());
        renamings.drain(..).take(kept).for_each(|renaming| renaming.apply(durable_names));
        *names = durable_names.clone();
        for contents in files.values_mut() {
            // All, nothing, or half of it.
            let share = [0.0, 0.5, 1.0][rng.random_range(0..3)];
            for change in contents.changes.drain(..) {
                match change {
                    Change::Write(at, new) => {
                        let mut done = 0;
                        while done < new.len() {
                            let length = (SECTOR - (at + done) % SECTOR).min(new.len() - done);
                            if rng.random_bool(share) {
                                let sector = new[done..done + length].to_vec();
                                apply(&mut contents.durable, &Change::Write(at + done, sector));
                            }
                            done += length;
                        }
                    }
                    cut @ Change::Cut(_) if rng.random_bool(share) => apply(&mut contents.durable, &cut),
                    Change::Cut(_) => {}
                }
            }
            contents.seen = contents.durable.clone();
        }
    }
}

impl Renaming {
    fn apply(self, names: &mut BTreeMap<PathBuf, u64>) {
        match self {
            Renaming::Set(path, file) => names.insert(path, file),
            Renaming::Gone(path) => names.remove(&path),
        };
    }
}

impl Platter {
    fn rename(&mut self, renaming: Renaming) {
        renaming.clone().apply(&mut self.names);
        self.renamings.push(renaming);
    }

    fn file(&self, path: &Path) -> io::Result<u64> {
        self.names.get(path).copied().ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn fails(&mut self) -> bool {
        let trouble = self.trouble;
        trouble > 0.0 && self.rng.random_bool(trouble)
    }
}

/// The disk as one life of a process has it.
pub(super) struct SimDisk {
    machine: Machine,
    life: Arc<Life>,
}

impl SimDisk {
    fn step(&self) -> io::Result<parking_lot::MutexGuard<'_, Platter>> {
        if self.life.step() { Ok(self.machine.platter.lock()) } else { Err(io::Error::other("the process is dead")) }
    }

    fn opened(&self, file: u64) -> Box<dyn DiskFile> {
        Box::new(SimFile { disk: SimDisk { machine: self.machine.clone(), life: Arc::clone(&self.life) }, file })
    }
}

struct Held {
    machine: Machine,
    path: PathBuf,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.machine.platter.lock().locks.remove(&self.path);
    }
}

impl Disk for SimDisk {
    fn make(&self, _: &Path) -> io::Result<()> {
        self.step().map(drop)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Lock>> {
        let mut platter = self.step()?;
        if !platter.names.contains_key(path) {
            platter.made += 1;
            let made = platter.made;
            platter.files.insert(made, Contents::default());
            platter.rename(Renaming::Set(path.to_owned(), made));
        }
        let free = platter.locks.insert(path.to_owned());
        let held = || Box::new(Held { machine: self.machine.clone(), path: path.to_owned() }) as Lock;
        Ok(free.then(held))
    }

    fn identity(&self, path: &Path) -> io::Result<String> {
        Ok(self.step()?.file(path)?.to_string())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let platter = self.step()?;
        Ok(platter.names.keys().filter(|path| path.parent() == Some(directory)).cloned().collect())
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = self.step()?.file(path)?;
        Ok(self.opened(file))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut platter = self.step()?;
        if platter.full {
            return Err(ErrorKind::StorageFull.into());
        }
        let file = match platter.file(path) {
            Ok(file) => file,
            Err(_) => {
                platter.made += 1;
                let made = platter.made;
                platter.rename(Renaming::Set(path.to_owned(), made));
                made
            }
        };
        platter.files.entry(file).or_default().change(Change::Cut(0));
        drop(platter);
        Ok(self.opened(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut platter = self.step()?;
        let file = platter.file(from)?;
        // One step, as file systems do it.
        platter.rename(Renaming::Set(to.to_owned(), file));
        platter.rename(Renaming::Gone(from.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut platter = self.step()?;
        platter.file(path)?;
        if platter.fails() {
            return Err(io::Error::other("input/output error"));
        }
        platter.rename(Renaming::Gone(path.to_owned()));
        Ok(())
    }

    fn sync(&self, _: &Path) -> io::Result<()> {
        let mut platter = self.step()?;
        if platter.fails() {
            return Err(io::Error::other("input/output error"));
        }
        platter.durable_names = platter.names.clone();
        platter.renamings.clear();
        Ok(())
    }

    fn free(&self, _: &Path) -> io::Result<u64> {
        Ok(self.step()?.free)
    }
}

struct SimFile {
    disk: SimDisk,
    file: u64,
}

impl SimFile {
    fn contents<T>(&self, work: impl FnOnce(&mut Contents) -> T) -> io::Result<T> {
        let mut platter = self.disk.step()?;
        Ok(work(platter.files.get_mut(&self.file).unwrap()))
    }
}

impl DiskFile for SimFile {
    fn size(&self) -> io::Result<u64> {
        self.contents(|contents| contents.seen.len() as u64)
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let at = at as usize;
        self.contents(|contents| {
            let rest = contents.seen.get(at..).unwrap_or_default();
            let length = rest.len().min(into.len());
            into[..length].copy_from_slice(&rest[..length]);
            length
        })
    }

    fn write(&mut self, at: u64, parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        let mut bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        if !self.disk.life.lives() {
            return Err(io::Error::other("the process is dead"));
        }
        let lives = self.disk.life.step();
        let mut platter = self.disk.machine.platter.lock();
        let fails = platter.full || platter.fails();
        if !lives || fails {
            // Some of it got there.
            let length = platter.rng.random_range(0..=bytes.len());
            bytes.truncate(length);
        }
        platter.files.get_mut(&self.file).unwrap().change(Change::Write(at as usize, bytes));
        match (lives, fails) {
            (true, false) => Ok(()),
            (true, true) => Err(ErrorKind::StorageFull.into()),
            (false, _) => Err(io::Error::other("the process is dead")),
        }
    }

    fn cut(&mut self, size: u64) -> io::Result<()> {
        let mut platter = self.disk.step()?;
        if platter.fails() {
            return Err(io::Error::other("input/output error"));
        }
        platter.files.get_mut(&self.file).unwrap().change(Change::Cut(size as usize));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut platter = self.disk.step()?;
        let fails = platter.fails();
        let Platter { files, rng, .. } = &mut *platter;
        let contents = files.get_mut(&self.file).unwrap();
        if fails {
            // The kernel marks the pages clean: they may be on disk or not, and a later sync says that all is well.
            let changes = std::mem::take(&mut contents.changes);
            for change in changes.into_iter().filter(|_| rng.random_bool(0.5)) {
                apply(&mut contents.durable, &change);
            }
            return Err(io::Error::other("input/output error"));
        }
        contents.changes.clear();
        contents.durable = contents.seen.clone();
        Ok(())
    }
}
