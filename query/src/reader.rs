//! Who asks, and what of the lake that one may see.
//!
//! ```text
//! principal (or nobody, where the ports are open) ─► reader ─► every query it asks, every row it gets
//! ```

use std::{fmt, sync::Arc};

use service::principal::Principal;

/// Somebody who asks.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Reader {
    name: String,
    front: &'static str,
    tenants: Seen,
    regions: Seen,
    infrastructure: bool,
}

/// What a reader sees of one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Every value, and rows without one.
    All,
    /// Rows with one of these.
    Only(Vec<String>),
}

/// What a page, the command line and everybody else is called where nobody has to prove anything.
const LOCAL: &str = "local";
/// Front of pages and commands of this process.
const PROCESS: &str = "process";
/// Front on which the service asks itself.
const INTERNAL: &str = "internal";

impl Reader {
    /// The reader that the principal is, on the HTTP front.
    pub(crate) fn of(principal: &Principal) -> Reader {
        let seen = |all: bool, some: &[String]| if all { Seen::All } else { Seen::Only(some.to_vec()) };
        Reader {
            name: principal.name.clone(),
            front: "http",
            tenants: seen(principal.every_tenant(), &principal.tenants),
            regions: seen(principal.every_region(), &principal.regions),
            infrastructure: principal.sees_infrastructure(),
        }
    }

    /// Whoever reaches the ports, where nobody has to prove anything: sees everything.
    pub(crate) fn local() -> Reader {
        Reader::unbound(LOCAL, PROCESS)
    }

    /// The service itself, for the series it serves.
    pub(crate) fn internal() -> Reader {
        Reader::unbound("tokenwatt", INTERNAL)
    }

    fn unbound(name: &str, front: &'static str) -> Reader {
        Reader { name: name.to_owned(), front, tenants: Seen::All, regions: Seen::All, infrastructure: true }
    }

    /// One with a name and bounds, that sees nothing of infrastructure unless it sees all regions and tenants.
    #[cfg(test)]
    pub(crate) fn bound(name: &str, tenants: Seen, regions: Seen) -> Reader {
        let infrastructure = tenants == Seen::All;
        Reader { tenants, regions, infrastructure, ..Reader::unbound(name, "http") }
    }

    /// The same reader on another front: `http`, `dashboard`, `postgresql`, `flight`.
    pub(crate) fn through(self, front: &'static str) -> Reader {
        Reader { front, ..self }
    }

    /// The principal's name, `local` where there are none.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Where it asks.
    pub(crate) fn front(&self) -> &'static str {
        self.front
    }

    /// Whether it is the service itself, which keeps no record of what it asks.
    pub(crate) fn is_internal(&self) -> bool {
        self.front == INTERNAL
    }

    /// Whether it is a page or a command of this very process.
    pub(crate) fn is_process(&self) -> bool {
        self.front == PROCESS
    }

    /// Tenants whose rows it sees.
    pub(crate) fn tenants(&self) -> &Seen {
        &self.tenants
    }

    /// Regions whose rows it sees.
    pub(crate) fn regions(&self) -> &Seen {
        &self.regions
    }

    /// Whether it sees what belongs to no tenant.
    pub(crate) fn sees_infrastructure(&self) -> bool {
        self.infrastructure
    }

    /// Whether it sees all there is.
    pub(crate) fn sees_everything(&self) -> bool {
        self.tenants == Seen::All && self.regions == Seen::All && self.infrastructure
    }

    /// Whether it may see, and stop, what `other` asks.
    pub(crate) fn may_watch(&self, other: &Reader) -> bool {
        self.sees_everything()
            || (self.name == other.name && self.is_process() == other.is_process() && !other.is_internal())
    }
}

/// The principal that the guard let through, or whoever reached the port where there is no guard.
impl From<Option<&Arc<Principal>>> for Reader {
    fn from(principal: Option<&Arc<Principal>>) -> Reader {
        principal.map_or_else(|| Reader::local().through("http"), |principal| Reader::of(principal))
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reader({} on {})", self.name, self.front)
    }
}

#[cfg(test)]
mod tests {
    use service::principal::{Principal, Role};

    use super::{Reader, Seen};

    fn principal(tenants: &[&str], regions: &[&str], infrastructure: Option<bool>) -> Principal {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Principal {
            name: "grafana".to_owned(),
            role: Role::Reader,
            token_sha256: None,
            scram: None,
            expires: None,
            certificate: None,
            tenants: list(tenants),
            regions: list(regions),
            infrastructure,
            items_per_s: None,
            bytes_per_s: None,
            burst_s: 10,
        }
    }

    #[test]
    fn a_star_is_everything_and_a_list_is_only_that() {
        let all = Reader::of(&principal(&["*"], &["*"], None));
        assert!(all.sees_everything() && Reader::local().sees_everything());
        let bound = Reader::of(&principal(&["acme"], &["*"], None));
        assert_eq!(bound.tenants(), &Seen::Only(vec!["acme".to_owned()]));
        assert!(!bound.sees_infrastructure() && !bound.sees_everything());
        assert!(!Reader::of(&principal(&["*"], &["eu-west-1"], None)).sees_everything());
        assert!(!Reader::of(&principal(&["*"], &["*"], Some(false))).sees_everything());
    }

    /// One's own queries on every front, those of others only with everything in sight.
    #[test]
    fn who_may_watch_whom() {
        let all = Reader::of(&principal(&["*"], &["*"], None));
        let bound = Reader { name: "acme".to_owned(), ..Reader::of(&principal(&["acme"], &["*"], None)) };
        assert!(all.may_watch(&bound) && !bound.may_watch(&all));
        assert!(bound.may_watch(&bound.clone().through("flight")));
    }
}
