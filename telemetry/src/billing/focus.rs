//! FOCUS cost and usage rows, versions 1.0 to 1.4 (<https://focus.finops.org>).

use super::{
    Charge, Read, amount, attributes, billing_period, charge_period, host, need_amount, number, provider, tags,
};
use crate::record::{Header, Record, Refusal};

/// Columns that a file must have; the specification calls them mandatory in every version.
pub(super) const NEEDED: &[&str] = &[
    "BilledCost",
    "EffectiveCost",
    "ListCost",
    "BillingAccountId",
    "BillingCurrency",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargePeriodStart",
    "ChargePeriodEnd",
];

/// Columns that a charge has a field for.
const PLACED: &[&str] = &[
    "BilledCost",
    "EffectiveCost",
    "ListCost",
    "ContractedCost",
    "BillingAccountId",
    "BillingCurrency",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargePeriodStart",
    "ChargePeriodEnd",
    "CommitmentDiscountId",
    "CommitmentDiscountType",
    "CommitmentDiscountStatus",
    "PricingCategory",
    "PricingQuantity",
    "PricingUnit",
    "RegionId",
    "AvailabilityZone",
    "ResourceId",
    "ServiceName",
    "SubAccountId",
    "Tags",
];

const AMOUNTS: &[&str] = &["BilledCost", "EffectiveCost", "ListCost", "ContractedCost"];

const CATEGORIES: [&str; 5] = ["usage", "purchase", "tax", "credit", "adjustment"];

/// The minor version that the columns fit: each version brought some, and 1.4 took two away.
pub(super) fn minor(header: &Header) -> u8 {
    let any = |names: &[&str]| names.iter().any(|name| header.has(name));
    let is_new = any(&["InvoiceDetailId", "CommitmentProgramEligibilityDetails"]);
    let has_names_of_old = any(&["ProviderName", "PublisherName"]);
    match () {
        () if is_new || (any(&["ServiceProviderName"]) && !has_names_of_old) => 4,
        () if any(&["ServiceProviderName", "HostProviderName", "AllocatedMethodId", "ContractApplied"]) => 3,
        () if any(&["InvoiceId", "BillingAccountType", "SubAccountType", "PricingCurrency"]) => 2,
        () if any(&["CapacityReservationId", "CommitmentDiscountQuantity", "SkuMeter", "ServiceSubcategory"]) => 1,
        () => 0,
    }
}

pub(super) fn read(record: Record<'_>) -> Result<Read, Refusal> {
    let get = |name: &str| record.get(name).map(str::to_owned);
    let lower = |name: &str| record.get(name).map(str::to_lowercase);
    let (from_us, to_us) = charge_period(record, "ChargePeriodStart", "ChargePeriodEnd")?;
    let category = record.need("ChargeCategory")?.to_lowercase();
    if !CATEGORIES.contains(&category.as_str()) {
        return Err(Refusal(format!("`ChargeCategory` is {category:?}, not one of {}", CATEGORIES.join(", "))));
    }
    let described = record.get("Tags").map(tags);
    if described == Some(None) {
        return Err(Refusal("`Tags` is no JSON object".to_owned()));
    }
    let host_id = record.get("ResourceId").and_then(|id| host::id(id, is_instance(record)));
    let mut charge = Charge {
        provider: provider_of(record),
        account: record.need("BillingAccountId")?.to_owned(),
        sub_account: get("SubAccountId"),
        region: get("RegionId"),
        zone: get("AvailabilityZone"),
        resource_id: get("ResourceId"),
        is_host_time: host_id.is_some() && is_host_time(record, &category),
        host_id,
        host_type: host_type(record),
        from_us,
        to_us,
        period: billing_period(record, "BillingPeriodStart")?,
        category: Some(category),
        class: lower("ChargeClass"),
        description: get("ChargeDescription"),
        service: get("ServiceName"),
        commitment_id: get("CommitmentDiscountId"),
        commitment_type: get("CommitmentDiscountType"),
        commitment_status: lower("CommitmentDiscountStatus"),
        pricing_category: lower("PricingCategory"),
        option: None,
        quantity: number(record, "PricingQuantity")?,
        unit: get("PricingUnit"),
        currency: record.need("BillingCurrency")?.to_owned(),
        list: need_amount(record, "ListCost")?,
        contracted: amount(record, "ContractedCost")?,
        effective: need_amount(record, "EffectiveCost")?,
        billed: need_amount(record, "BilledCost")?,
        tags: described.flatten().unwrap_or_default(),
        attributes: attributes(record, PLACED, AMOUNTS),
        notes: Vec::new(),
    };
    charge.option = option(&charge);
    Ok(Read::Charge(Box::new(charge)))
}

fn provider_of(record: Record<'_>) -> String {
    let named = record.get("ServiceProviderName").or_else(|| record.get("ProviderName"));
    provider::named(named.or_else(|| record.get("InvoiceIssuerName")).unwrap_or("unknown"))
}

fn is_instance(record: Record<'_>) -> bool {
    let kind = record.get("ResourceType").unwrap_or_default().to_lowercase();
    kind.contains("instance") || kind.contains("virtual machine") || kind.contains("virtualmachine")
}

/// Whether the row charges a host for being there: usage of compute, by the hour.
fn is_host_time(record: Record<'_>, category: &str) -> bool {
    let unit = record.get("PricingUnit").unwrap_or_default().to_lowercase();
    category == "usage"
        && record.get("ServiceCategory") == Some("Compute")
        && ["hours", "hour", "hrs"].contains(&unit.as_str())
}

fn host_type(record: Record<'_>) -> Option<String> {
    let details = record.get("SkuPriceDetails").and_then(tags);
    let stated =
        details.and_then(|mut details| details.remove("InstanceType").or_else(|| details.remove("x_InstanceType")));
    stated.or_else(|| host::type_in(record.get("ChargeDescription")?).map(str::to_owned))
}

/// The purchase option, of what the row says of commitment and price.
fn option(charge: &Charge) -> Option<String> {
    let commitment = charge.commitment_type.as_deref().unwrap_or_default().to_lowercase();
    let option = match charge.pricing_category.as_deref() {
        _ if commitment.contains("savings plan") => "savings_plan",
        _ if commitment.contains("reserv") || commitment.contains("committed use") => "reserved",
        Some("dynamic") => "spot",
        Some("standard") => "on_demand",
        _ => return None,
    };
    Some(option.to_owned())
}
