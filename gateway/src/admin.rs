//! What operators see and change: the nodes, and the share of each region.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use service::{Error, Kind, Result};

use crate::Gateway;
use crate::config::region_weights;
use crate::identify::bearer;

pub(crate) fn router(gateway: Arc<Gateway>) -> Router {
    Router::new()
        .route("/admin/nodes", get(nodes))
        .route("/admin/regions", get(regions).put(set_regions))
        .with_state(gateway)
}

async fn nodes(State(gateway): State<Arc<Gateway>>, headers: HeaderMap) -> Result<Json<Value>> {
    allow(&gateway, &headers)?;
    let nodes = gateway.fleet.nodes().iter().map(|node| {
        json!({
            "url": node.url,
            "region": node.region,
            "weight": node.weight,
            "outstanding": node.outstanding(),
            "usable": node.usable(),
        })
    });
    Ok(Json(nodes.collect()))
}

async fn regions(State(gateway): State<Arc<Gateway>>, headers: HeaderMap) -> Result<Json<BTreeMap<String, f64>>> {
    allow(&gateway, &headers)?;
    Ok(Json(gateway.fleet.regions()))
}

/// Replaces the weights of all regions; the next call is routed by them.
async fn set_regions(
    State(gateway): State<Arc<Gateway>>,
    headers: HeaderMap,
    Json(weights): Json<BTreeMap<String, f64>>,
) -> Result<Json<BTreeMap<String, f64>>> {
    allow(&gateway, &headers)?;
    let mut faults = Vec::new();
    region_weights(&weights, &mut faults);
    let known = |region: &String| gateway.fleet.nodes().iter().any(|node| node.region == *region);
    faults
        .extend(weights.keys().filter(|region| !known(region)).map(|region| format!("no node is in region {region}")));
    if !faults.is_empty() {
        return Err(Error::invalid(faults.join("; ")));
    }
    tracing::info!(?weights, "region weights changed");
    gateway.fleet.set_regions(weights.clone());
    Ok(Json(weights))
}

/// With a fleet secret, only who knows it; without one the gateway listens on loopback alone, or has keys that clients hold and
/// admins do not, so that then nobody is let in from outside.
fn allow(gateway: &Gateway, headers: &HeaderMap) -> Result<()> {
    match &gateway.config.fleet_secret {
        Some(secret) if bearer(headers).is_some_and(|offered| secret.matches(offered.as_bytes())) => Ok(()),
        Some(_) => Err(Error::new(Kind::Unauthenticated, "the fleet's secret is needed as bearer token")),
        None if gateway.config.http_addr.ip().is_loopback() => Ok(()),
        None => Err(Error::denied("set gateway.fleet_secret to use the admin pages from outside this machine")),
    }
}
