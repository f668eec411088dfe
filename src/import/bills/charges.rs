//! Charges as rows of table `billing`.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Decimal128Array, Float64Array, MapBuilder, MapFieldNames, RecordBatch, StringArray, StringBuilder,
    TimestampMicrosecondArray,
};
use arrow::error::ArrowError;
use service::{Error, Result};
use telemetry::billing::{Carry, Charge, Exact};
use telemetry::table::schema::{MONEY_PRECISION, MONEY_SCALE};

/// Where charges come from.
pub(super) struct Origin {
    /// When the import runs, µs since the epoch.
    pub(super) now_us: i64,
    /// The file.
    pub(super) source: String,
}

/// What the amounts of an export have lost to the thirteenth decimal so far.
#[derive(Default)]
pub(super) struct Cut {
    list: Carry,
    contracted: Carry,
    effective: Carry,
    billed: Carry,
}

/// The rows of some charges, in their order.
pub(super) fn rows(charges: &[&Charge], cut: &mut Cut, origin: &Origin) -> Result<RecordBatch> {
    let text = |of: fn(&Charge) -> Option<&str>| -> ArrayRef {
        Arc::new(charges.iter().map(|charge| of(charge)).collect::<StringArray>())
    };
    let time = |of: &dyn Fn(&Charge) -> i64| -> ArrayRef {
        let us = charges.iter().map(|charge| of(charge));
        Arc::new(TimestampMicrosecondArray::from_iter_values(us).with_timezone("UTC"))
    };
    let same = |value: &str| -> ArrayRef { Arc::new(StringArray::from_iter_values(charges.iter().map(|_| value))) };
    let made = |error: ArrowError| Error::internal("charges as rows").with_source(error);
    let quantity: Float64Array = charges.iter().map(|charge| charge.quantity).collect();
    let bills = StringArray::from_iter_values(charges.iter().map(|charge| charge.bill()));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("time", time(&|charge| charge.from_us)),
        ("provider", text(|charge| Some(&charge.provider))),
        ("account", text(|charge| Some(&charge.account))),
        ("sub_account", text(|charge| charge.sub_account.as_deref())),
        ("region", text(|charge| charge.region.as_deref())),
        ("zone", text(|charge| charge.zone.as_deref())),
        ("resource_id", text(|charge| charge.resource_id.as_deref())),
        ("host_type", text(|charge| charge.host_type.as_deref())),
        ("charge_from", time(&|charge| charge.from_us)),
        ("charge_to", time(&|charge| charge.to_us)),
        ("period", text(|charge| Some(&charge.period))),
        ("charge_category", text(|charge| charge.category.as_deref())),
        ("charge_class", text(|charge| charge.class.as_deref())),
        ("charge_description", text(|charge| charge.description.as_deref())),
        ("service_name", text(|charge| charge.service.as_deref())),
        ("commitment_id", text(|charge| charge.commitment_id.as_deref())),
        ("commitment_type", text(|charge| charge.commitment_type.as_deref())),
        ("commitment_status", text(|charge| charge.commitment_status.as_deref())),
        ("pricing_category", text(|charge| charge.pricing_category.as_deref())),
        ("quantity", Arc::new(quantity)),
        ("quantity_unit", text(|charge| charge.unit.as_deref())),
        ("currency", text(|charge| Some(&charge.currency))),
        ("list_cost", money(charges, &mut cut.list, |charge| charge.list).map_err(made)?),
        ("contracted_cost", money(charges, &mut cut.contracted, |charge| charge.contracted).map_err(made)?),
        ("effective_cost", money(charges, &mut cut.effective, |charge| charge.effective).map_err(made)?),
        ("billed_cost", money(charges, &mut cut.billed, |charge| charge.billed).map_err(made)?),
        ("export_id", same(&format!("import-{}", origin.now_us))),
        ("source", same(&origin.source)),
        ("tags", map(charges, |charge| &charge.tags).map_err(made)?),
        ("attributes", map(charges, |charge| &charge.attributes).map_err(made)?),
        ("bill", Arc::new(bills)),
        ("host_id", text(|charge| charge.host_id.as_deref())),
        ("charge_kind", text(|charge| Some(if charge.is_host_time { "host_time" } else { "other" }))),
        ("option", text(|charge| charge.option.as_deref())),
        ("imported_at", time(&|_| origin.now_us)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, name != "time")))
        .map_err(made)
}

fn money(
    charges: &[&Charge],
    carry: &mut Carry,
    of: fn(&Charge) -> Option<Exact>,
) -> std::result::Result<ArrayRef, ArrowError> {
    let stored = charges.iter().map(|charge| of(charge).map(|exact| carry.store(exact).0));
    let stored: Decimal128Array = stored.collect();
    Ok(Arc::new(stored.with_precision_and_scale(MONEY_PRECISION, MONEY_SCALE)?))
}

fn map(charges: &[&Charge], of: fn(&Charge) -> &BTreeMap<String, String>) -> std::result::Result<ArrayRef, ArrowError> {
    let names = MapFieldNames { entry: "key_value".into(), key: "key".into(), value: "value".into() };
    let mut maps = MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new());
    for charge in charges {
        for (key, value) in of(charge) {
            maps.keys().append_value(key);
            maps.values().append_value(value);
        }
        maps.append(true)?;
    }
    Ok(Arc::new(maps.finish()))
}
