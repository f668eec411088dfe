//! AWS Cost and Usage Report 2.0, amortised by AWS's own rules: those of the summary view of the Cloud Intelligence Dashboards
//! (aws-solutions-library-samples/cloud-intelligence-dashboards-framework, `summary_view.sql`).

use super::{Charge, Exact, Read, amount, attributes, billing_period, charge_period, host, need_amount, number, tags};
use crate::record::{Record, Refusal};

/// Columns that a file must have.
pub(super) const NEEDED: &[&str] = &[
    "bill_payer_account_id",
    "bill_billing_period_start_date",
    "line_item_line_item_type",
    "line_item_usage_start_date",
    "line_item_usage_end_date",
    "line_item_unblended_cost",
    "line_item_currency_code",
];

/// Columns that a charge has a field for. What says how a cost came about stays among the attributes too.
const PLACED: &[&str] = &[
    "bill_payer_account_id",
    "bill_billing_period_start_date",
    "line_item_usage_account_id",
    "line_item_usage_start_date",
    "line_item_usage_end_date",
    "line_item_line_item_description",
    "line_item_availability_zone",
    "line_item_resource_id",
    "line_item_product_code",
    "line_item_usage_amount",
    "line_item_currency_code",
    "product_region_code",
    "product_instance_type",
    "pricing_unit",
    "resource_tags",
];

/// Operations whose rows say again, container by container, what the rows of the instances say.
const SPLIT: [&str; 2] = ["EKSPod-EC2", "ECSTask-EC2"];

pub(super) fn read(record: Record<'_>) -> Result<Read, Refusal> {
    if record.get("line_item_operation").is_some_and(|operation| SPLIT.contains(&operation)) {
        return Ok(Read::LeftOut("split cost of containers, whose instances have rows of their own"));
    }
    let get = |name: &str| record.get(name).map(str::to_owned);
    let (from_us, to_us) = charge_period(record, "line_item_usage_start_date", "line_item_usage_end_date")?;
    let kind = record.need("line_item_line_item_type")?;
    let host_id = record.get("line_item_resource_id").and_then(|id| host::id(id, false));
    let commitment = commitment(record);
    let described = record.get("resource_tags").map(|text| (text, tags(text)));
    let mut kept = attributes(record, PLACED, &[]);
    let mut notes = Vec::new();
    if let Some((text, None)) = described {
        kept.insert("resource_tags".to_owned(), text.to_owned());
        notes.push("`resource_tags` is no JSON object: kept as text in `attributes`");
    }
    Ok(Read::Charge(Box::new(Charge {
        provider: "AWS".to_owned(),
        account: record.need("bill_payer_account_id")?.to_owned(),
        sub_account: get("line_item_usage_account_id"),
        region: get("product_region_code"),
        zone: get("line_item_availability_zone"),
        resource_id: get("line_item_resource_id"),
        is_host_time: host_id.is_some() && is_host_time(record, kind),
        host_id,
        host_type: host_type(record),
        from_us,
        to_us,
        period: billing_period(record, "bill_billing_period_start_date")?,
        category: category(kind).map(str::to_owned),
        class: None,
        description: get("line_item_line_item_description"),
        service: get("line_item_product_code"),
        commitment_id: commitment.map(|(id, _)| id.to_owned()),
        commitment_type: commitment.map(|(_, kind)| kind.to_owned()),
        commitment_status: status(kind).map(str::to_owned),
        pricing_category: pricing(record, kind).map(str::to_owned),
        option: option(record, kind).map(str::to_owned),
        quantity: number(record, "line_item_usage_amount")?,
        unit: get("pricing_unit"),
        currency: record.need("line_item_currency_code")?.to_owned(),
        list: list(record, kind)?,
        contracted: None,
        effective: effective(record, kind)?,
        billed: billed(record, kind)?,
        tags: described.and_then(|(_, tags)| tags).unwrap_or_default(),
        attributes: kept,
        notes,
    })))
}

/// The savings plan or reservation of the row, and what it is called.
fn commitment(record: Record<'_>) -> Option<(&str, &'static str)> {
    let plan = record.get("savings_plan_savings_plan_a_r_n").map(|arn| (arn, "Savings Plan"));
    plan.or_else(|| record.get("reservation_reservation_a_r_n").map(|arn| (arn, "Reserved Instance")))
}

fn category(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "Usage" | "SavingsPlanCoveredUsage" | "DiscountedUsage" => "usage",
        "SavingsPlanRecurringFee" | "SavingsPlanUpfrontFee" | "RIFee" | "Fee" => "purchase",
        "SavingsPlanNegation" | "Refund" => "adjustment",
        "Tax" => "tax",
        "Credit" => "credit",
        _ => return None,
    })
}

fn status(kind: &str) -> Option<&'static str> {
    match kind {
        "SavingsPlanCoveredUsage" | "DiscountedUsage" => Some("used"),
        "SavingsPlanRecurringFee" | "RIFee" => Some("unused"),
        _ => None,
    }
}

fn is_spot(record: Record<'_>) -> bool {
    record.get("line_item_usage_type").is_some_and(|usage| usage.contains("Spot"))
}

fn pricing(record: Record<'_>, kind: &str) -> Option<&'static str> {
    match kind {
        "SavingsPlanCoveredUsage" | "DiscountedUsage" => Some("committed"),
        "Usage" if is_spot(record) => Some("dynamic"),
        "Usage" => Some("standard"),
        _ => None,
    }
}

fn option(record: Record<'_>, kind: &str) -> Option<&'static str> {
    match (commitment(record), kind) {
        (Some((_, "Savings Plan")), _) => Some("savings_plan"),
        (Some(_), _) => Some("reserved"),
        (None, "Usage") if is_spot(record) => Some("spot"),
        (None, "Usage") => Some("on_demand"),
        _ => None,
    }
}

/// Whether the row charges an instance for being there: data transfer, credits for CPU and the like are charged beside it.
fn is_host_time(record: Record<'_>, kind: &str) -> bool {
    const MACHINES: [&str; 4] = ["BoxUsage", "SpotUsage", "DedicatedUsage", "HeavyUsage"];
    let usage = record.get("line_item_usage_type").unwrap_or_default();
    matches!(kind, "Usage" | "SavingsPlanCoveredUsage" | "DiscountedUsage")
        && record.get("line_item_product_code") == Some("AmazonEC2")
        && MACHINES.iter().any(|machine| usage.contains(machine))
}

/// Rows of spot instances name their type in the description alone.
fn host_type(record: Record<'_>) -> Option<String> {
    let stated = record.get("product_instance_type");
    stated.or_else(|| host::type_in(record.get("line_item_line_item_description")?)).map(str::to_owned)
}

fn list(record: Record<'_>, kind: &str) -> Result<Option<Exact>, Refusal> {
    match kind {
        "SavingsPlanNegation" => Ok(Some(Exact::ZERO)),
        _ => amount(record, "pricing_public_on_demand_cost"),
    }
}

fn effective(record: Record<'_>, kind: &str) -> Result<Option<Exact>, Refusal> {
    let sum = |one: &str, other: &str| {
        let (one, other) = (need_amount(record, one)?, need_amount(record, other)?);
        Ok(one.zip(other).map(|(one, other)| one + other))
    };
    let unused = || {
        let committed = need_amount(record, "savings_plan_total_commitment_to_date")?;
        let used = need_amount(record, "savings_plan_used_commitment")?;
        Ok(committed.zip(used).map(|(committed, used)| committed - used))
    };
    match kind {
        "SavingsPlanCoveredUsage" => need_amount(record, "savings_plan_savings_plan_effective_cost"),
        "SavingsPlanRecurringFee" => unused(),
        "SavingsPlanNegation" | "SavingsPlanUpfrontFee" => Ok(Some(Exact::ZERO)),
        "Fee" if record.get("reservation_reservation_a_r_n").is_some() => Ok(Some(Exact::ZERO)),
        "DiscountedUsage" => need_amount(record, "reservation_effective_cost"),
        "RIFee" => {
            sum("reservation_unused_amortized_upfront_fee_for_billing_period", "reservation_unused_recurring_fee")
        }
        _ => need_amount(record, "line_item_unblended_cost"),
    }
}

/// The invoiced cost. A covered hour comes at its on-demand cost and its negation takes that back in a row of its own; both are
/// nothing here, as in FOCUS, so that a host is not shown a cost that nobody pays. What the rows said stays in the attributes.
fn billed(record: Record<'_>, kind: &str) -> Result<Option<Exact>, Refusal> {
    let unblended = need_amount(record, "line_item_unblended_cost")?;
    Ok(match kind {
        "SavingsPlanCoveredUsage" | "SavingsPlanNegation" => Some(Exact::ZERO),
        _ => unblended,
    })
}
