//! Reading files of others into the tables.
//!
//! ```text
//! file (CSV, gzip, Parquet) ─► rows ─► prices | charges | discounts | rates, or refusals (report) ─► lake::sets, all or nothing
//! ```

pub(crate) mod report;
pub(crate) mod rows;

pub(crate) mod bills;
pub(crate) mod lists;
pub(crate) mod prices;
