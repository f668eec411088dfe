//! What the store under the lake can do: write, refuse to overwrite, read, list, delete, and tell the time.

use bytes::Bytes;
use futures::TryStreamExt;
use lake::Lake;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use service::{Deps, Error};

use super::Finding;

/// Most that the store's clock may differ from ours, s: half of the ten minutes that event times may lie ahead.
const SKEW_MAX_S: i64 = 300;

/// Tries everything a lake needs on an object of its own, and removes it.
pub(crate) async fn check(data: &str, deps: &Deps) -> Vec<Finding> {
    let lake = match Lake::open(data, deps).await {
        Ok(lake) => lake,
        Err(error) => return vec![Finding::bad("lake", error)],
    };
    let mut findings = vec![Finding::good("lake", format!("{} can be opened", lake.url()))];
    let path = Path::from(format!("_tokenwatt_check/{}-{}", std::process::id(), deps.clock.now_ns()));
    match probe(lake.store().as_ref(), &path, deps).await {
        Ok(more) => findings.extend(more),
        Err(error) => findings.push(Finding::bad("store", error)),
    }
    findings
}

async fn probe(store: &dyn ObjectStore, path: &Path, deps: &Deps) -> Result<Vec<Finding>, Error> {
    let failed = |what: &str, error: object_store::Error| {
        Error::denied(format!("{what} {path}"))
            .with_source(error)
            .with_hint("the store must allow this at least below the lake's prefix; see its policy and credentials")
    };
    let create = || PutOptions::from(PutMode::Create);
    let body = Bytes::from_static(b"probe");
    store.put_opts(path, body.clone().into(), create()).await.map_err(|error| failed("write", error))?;
    let mut findings = vec![Finding::good("store", "writes")];
    findings.push(match store.put_opts(path, body.clone().into(), create()).await {
        Err(object_store::Error::AlreadyExists { .. }) => {
            Finding::good("store", "refuses to overwrite (If-None-Match)")
        }
        Ok(_) => Finding::bad("store", no_conditional_put()),
        Err(error) => Finding::bad("store", failed("write again", error)),
    });
    let read = store.get(path).await.map_err(|error| failed("read", error))?;
    let modified = read.meta.last_modified.timestamp();
    let same = read.bytes().await.map_err(|error| failed("read", error))? == body;
    findings.push(if same {
        Finding::good("store", "reads back what was written")
    } else {
        Finding::bad("store", other_bytes())
    });
    let listed: Vec<_> =
        store.list(Some(&Path::from("_tokenwatt_check"))).try_collect().await.map_err(|error| failed("list", error))?;
    let seen = listed.iter().any(|object| object.location == *path);
    findings.push(if seen { Finding::good("store", "lists it at once") } else { Finding::bad("store", unlisted()) });
    findings.push(skew(modified - deps.clock.now_us().div_euclid(1_000_000)));
    store.delete(path).await.map_err(|error| failed("delete", error))?;
    findings.push(Finding::good("store", "deletes"));
    Ok(findings)
}

fn skew(seconds: i64) -> Finding {
    if seconds.abs() <= SKEW_MAX_S {
        return Finding::good("store", format!("its clock is within {} s of ours", seconds.abs().max(1)));
    }
    let error = Error::invalid(format!("the store's clock differs from ours by {seconds} s"))
        .with_hint("start NTP here; signatures and event times depend on it");
    Finding::bad("store", error)
}

fn no_conditional_put() -> Error {
    Error::conflict("the store overwrites an object that If-None-Match should protect")
        .with_hint("two writers would lose data; use a store that honours conditional writes")
}

fn other_bytes() -> Error {
    Error::corrupt("the store returned other bytes than were written")
}

fn unlisted() -> Error {
    Error::corrupt("the store does not list an object just written")
        .with_hint("use a store with strongly consistent listing")
}
