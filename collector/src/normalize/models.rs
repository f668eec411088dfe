//! The model behind spans that do not name one: what the same replica said in its metrics, or what an operator configured.
//!
//! A replica whose metrics name two models tells nothing about a span that names none.

use std::collections::{BTreeMap, HashMap};

use super::resource::Resource;

/// Replicas remembered at once.
const REPLICAS_MAX: usize = 50_000;

/// Known models.
pub(super) struct Models {
    by_service: BTreeMap<String, String>,
    /// By service and instance; `None` for a replica of several models.
    by_replica: HashMap<(String, String), Option<String>>,
}

/// A model, and whether it had to be inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Model<'m> {
    /// The span or its resource says so.
    Named(&'m str),
    /// The replica's metrics or the configuration say so.
    Assumed(&'m str),
    /// Nobody says.
    Unknown,
}

impl<'m> Model<'m> {
    /// The name, if any.
    pub(super) fn name(self) -> Option<&'m str> {
        match self {
            Model::Named(name) | Model::Assumed(name) => Some(name),
            Model::Unknown => None,
        }
    }
}

impl Models {
    /// Knows the models of services as configured.
    pub(super) fn new(by_service: BTreeMap<String, String>) -> Self {
        Self { by_service, by_replica: HashMap::new() }
    }

    /// Remembers the model that a replica's metrics name.
    pub(super) fn learn(&mut self, resource: &Resource<'_>, model: &str) {
        let Some(key) = key(resource) else { return };
        if let Some(known) = self.by_replica.get_mut(&key) {
            if known.as_deref() != Some(model) {
                *known = None;
            }
        } else if self.by_replica.len() < REPLICAS_MAX {
            self.by_replica.insert(key, Some(model.to_owned()));
        }
    }

    /// The model of a span of that resource, `named` by the span itself or not.
    pub(super) fn of<'m, 'a: 'm>(&'m self, resource: &Resource<'a>, named: Option<&'a str>) -> Model<'m> {
        let resource_names = ["gen_ai.request.model", "gen_ai.response.model", "model_name", "model"];
        if let Some(name) = named.or_else(|| resource_names.iter().find_map(|key| resource.get(key).text())) {
            return Model::Named(name);
        }
        let configured = resource.service().and_then(|service| self.by_service.get(service));
        let learned = || key(resource).and_then(|key| self.by_replica.get(&key)).and_then(Option::as_ref);
        configured.or_else(learned).map_or(Model::Unknown, |name| Model::Assumed(name))
    }
}

fn key(resource: &Resource<'_>) -> Option<(String, String)> {
    let instance = resource.instance()?;
    Some((resource.service().unwrap_or_default().to_owned(), instance.to_owned()))
}
