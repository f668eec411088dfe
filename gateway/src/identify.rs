//! Who calls: from the API key to the tenant.

use std::collections::HashMap;
use std::sync::Arc;

use axum::http::{HeaderMap, header};
use service::secret::Secret;

use crate::config::Key;
use crate::fault::Fault;

/// The keys of all tenants.
pub(crate) struct Keys {
    tenants: HashMap<Secret, Arc<str>>,
}

impl Keys {
    pub(crate) fn new(keys: &[Key]) -> Self {
        Self { tenants: keys.iter().map(|entry| (entry.key.clone(), Arc::from(entry.tenant.as_str()))).collect() }
    }

    /// The tenant of the call; `None` when this gateway has no keys and lets everyone in.
    pub(crate) fn tenant(&self, headers: &HeaderMap) -> Result<Option<Arc<str>>, Fault> {
        if self.tenants.is_empty() {
            return Ok(None);
        }
        let key = bearer(headers).ok_or(Fault::NoKey)?;
        self.tenants.get(&Secret::new(key)).cloned().map(Some).ok_or(Fault::WrongKey)
    }
}

/// The bearer token of a call.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())])
    }

    /// The key decides; without keys everyone is let in and nobody has a tenant.
    #[test]
    fn key_gives_tenant() {
        let keys = Keys::new(&[Key { key: Secret::new("k1"), tenant: "acme".to_owned() }]);
        assert_eq!(keys.tenant(&headers("Bearer k1")).unwrap().as_deref(), Some("acme"));
        assert_eq!(keys.tenant(&headers("bearer  k1 ")).unwrap().as_deref(), Some("acme"));
        assert_eq!(keys.tenant(&headers("Bearer k2")), Err(Fault::WrongKey));
        assert_eq!(keys.tenant(&headers("Basic k1")), Err(Fault::NoKey));
        assert_eq!(keys.tenant(&HeaderMap::new()), Err(Fault::NoKey));
        assert_eq!(Keys::new(&[]).tenant(&headers("Bearer any")), Ok(None));
    }
}
