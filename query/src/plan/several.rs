//! Tables and views of several lakes.
//!
//! Nothing is asked of a lake before a scan knows which regions the query wants: what depends on the lakes' logs (windows that are
//! built, objectives in force) is planned then, for the lakes that hold those regions.

use std::{
    borrow::Cow,
    sync::{Arc, Weak},
};

use arrow::datatypes::SchemaRef;
use datafusion::{
    catalog::{Session, TableProvider},
    common::{Result, plan_err},
    logical_expr::{Expr, LogicalPlan},
    prelude::DataFrame,
};
use service::Error;

use super::{Scope, parse, view};
use crate::{
    error,
    federate::{Federated, Pins, Within},
    rollup::{self, OfLake, Rollup},
    scan::LakeTable,
    views::View,
};

/// A view's part in a query over several lakes.
#[derive(Clone)]
pub(super) struct Share {
    scope: Weak<Scope>,
    pins: Arc<Pins>,
    /// Lakes that it reads.
    lakes: Within,
    later: Option<Later>,
}

/// What of a view's query waits for its scan.
#[derive(Clone, Copy)]
enum Later {
    /// Which windows are built.
    Windows(&'static Rollup),
    /// Which objectives are in force.
    Judged,
}

impl Share {
    /// The same in these lakes.
    pub(super) fn within(&self, lakes: &Within) -> Share {
        Share { lakes: Arc::clone(lakes), ..self.clone() }
    }

    /// The lakes that may have a part in rows which the filters let through. All rows of a call lie in one lake, unless the
    /// settings say otherwise, so a region's rows of a view are made of what the lakes with that region hold.
    pub(super) fn holding(&self, filters: &[Expr], schema: &SchemaRef, state: &dyn Session) -> Result<Within> {
        match self.pins.calls_span_lakes() {
            true => Ok(Arc::clone(&self.lakes)),
            false => self.pins.holding(&self.lakes, filters, schema, state),
        }
    }

    /// The view's query over these lakes; `whole` is that over all.
    pub(super) async fn plan(&self, view: &'static View, whole: &LogicalPlan, lakes: &Within) -> Result<LogicalPlan> {
        let Some(later) = self.later else { return view::within(whole.clone(), lakes) };
        let ended = || error::from_lake(Error::internal("a view is planned after its query has ended"));
        let scope = self.scope.upgrade().ok_or_else(ended)?;
        let sql = match later {
            Later::Windows(rollup) => scope.windows_of(&self.pins, rollup, lakes).await?,
            Later::Judged => scope.judged_in(view, lakes).await?,
        };
        view::within(scope.analyzed(&sql).await?, lakes)
    }
}

impl Scope {
    /// The table of that name in all lakes.
    pub(super) fn table_of_several(&self, pins: &Arc<Pins>, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let (table, version) = parse::split_version(name);
        let Some(table) = telemetry::table::by_name(table) else { return Ok(None) };
        if let Some(version) = version {
            return plan_err!(
                "each lake counts its versions by itself; name one, as in <lake>.{} VERSION AS OF {version}",
                table.name
            );
        }
        let stores = self.shared.stores().clone();
        Ok(Some(Arc::new(Federated::new(table, pins, stores))))
    }

    /// The lake of that name, where there are several.
    pub(super) fn lake(&self, name: &str) -> Option<usize> {
        self.lakes.as_ref()?.named(name)
    }

    /// The table of that name in one lake.
    ///
    /// # Errors
    /// If the lake cannot be reached: who names one wants no other.
    pub(super) async fn table_of(&self, lake: usize, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let (table, version) = parse::split_version(name);
        let (Some(pins), Some(table)) = (&self.lakes, telemetry::table::by_name(table)) else { return Ok(None) };
        let snapshot = pins.pin_surely(lake, table.name, version).await.map_err(error::from_lake)?;
        let shown = pins.site(lake).shown(&snapshot);
        Ok(Some(Arc::new(LakeTable::new(shown, self.shared.stores().clone()))))
    }

    /// The view over all lakes.
    pub(super) async fn view_of_several(
        self: &Arc<Self>,
        view: &'static View,
        pins: &Arc<Pins>,
    ) -> Result<view::ViewTable> {
        let later = match rollup::of(view) {
            Some(rollup) => Some(Later::Windows(rollup)),
            None => rollup::judges(view).then_some(Later::Judged),
        };
        let sql = match later {
            Some(Later::Windows(rollup)) => Cow::Owned(rollup::shape(rollup)),
            _ => self.shared.sql(view),
        };
        let plan = self.analyzed(&sql).await?;
        Ok(view::ViewTable::new(view, plan).shared(self.share(pins, later)))
    }

    /// The part of a view that needs nothing but its rows.
    pub(super) fn plain_share(self: &Arc<Self>, pins: &Arc<Pins>) -> Share {
        self.share(pins, None)
    }

    fn share(self: &Arc<Self>, pins: &Arc<Pins>, later: Option<Later>) -> Share {
        Share { scope: Arc::downgrade(self), pins: Arc::clone(pins), lakes: pins.all(), later }
    }

    /// As for one lake, with windows where every one of them has built them.
    async fn windows_of(&self, pins: &Pins, rollup: &'static Rollup, lakes: &Within) -> Result<String> {
        if pins.calls_span_lakes() && rollup.counts_calls() {
            // A call whose rows lie in two lakes was counted in both.
            return Ok(rollup::shape(rollup));
        }
        let mut read = Vec::with_capacity(lakes.len());
        for lake in lakes.iter() {
            let mut pinned = Vec::with_capacity(rollup.sources.len() + 1);
            for name in rollup.tables() {
                pinned.extend(pins.pin(*lake, name).await?);
            }
            if pinned.len() == rollup.sources.len() + 1 {
                read.push((pins.site(*lake), pinned));
            }
        }
        let mut each = Vec::with_capacity(read.len());
        for (site, pinned) in read {
            let lake = site.lake().await.map_err(error::from_lake)?;
            each.push(OfLake { pinned, memory: site.windows(), lake });
        }
        let answer = rollup::answer_of_several(rollup, &each, self.now_us).await.map_err(error::from_lake)?;
        self.served.lock().insert(answer.served_by);
        Ok(answer.sql)
    }

    async fn judged_in(self: &Arc<Self>, view: &'static View, lakes: &Within) -> Result<String> {
        let state = self.session();
        let plan = view::within(self.analyzed(rollup::OBJECTIVES_SQL).await?, lakes)?;
        let batches = DataFrame::new(state, plan).collect().await?;
        let objectives = rollup::objectives(&batches).map_err(error::from_lake)?;
        Ok(rollup::judging(view, &objectives))
    }
}
