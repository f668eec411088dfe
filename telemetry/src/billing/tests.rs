use super::{Charge, Format, Read};
use crate::record::{Header, Record, Refusal};

/// Reads one row of these columns.
fn read(fields: &[(&str, &str)]) -> Result<Read, Refusal> {
    let header = Header::new(fields.iter().map(|(name, _)| name)).expect("a header");
    let values: Vec<_> = fields.iter().map(|(_, value)| Some(*value)).collect();
    Format::of(&header)?.read(Record::new(&header, &values).expect("a row"))
}

fn charge(fields: &[(&str, &str)]) -> Charge {
    match read(fields) {
        Ok(Read::Charge(charge)) => *charge,
        other => panic!("{other:?} of {fields:?}"),
    }
}

/// The fields with others put in their place, or added.
fn with<'a>(fields: &[(&'a str, &'a str)], more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let kept = fields.iter().filter(|(name, _)| more.iter().all(|(other, _)| other != name));
    kept.chain(more).copied().collect()
}

const FOCUS: &[(&str, &str)] = &[
    ("ProviderName", "Amazon Web Services"),
    ("BillingAccountId", "1"),
    ("BillingCurrency", "USD"),
    ("BillingPeriodStart", "2026-05-01T00:00:00Z"),
    ("ChargePeriodStart", "2026-05-02T03:00:00Z"),
    ("ChargePeriodEnd", "2026-05-02T04:00:00Z"),
    ("ChargeCategory", "Usage"),
    ("ServiceCategory", "Compute"),
    ("PricingCategory", "Committed"),
    ("CommitmentDiscountType", "Savings Plan"),
    ("CommitmentDiscountStatus", "Used"),
    ("PricingUnit", "Hours"),
    ("PricingQuantity", "1"),
    ("ResourceId", "arn:aws:ec2:us-east-1:2:instance/i-0123456789abcdef0"),
    ("SkuPriceDetails", "{\"InstanceType\":\"p5.48xlarge\",\"CoreCount\":192}"),
    ("ListCost", "55.04"),
    ("ContractedCost", "55.04"),
    ("EffectiveCost", "31.46400000000012345"),
    ("BilledCost", "0"),
    ("Tags", "{\"team\":\"search\",\"n\":1}"),
];

#[test]
fn a_focus_row_becomes_a_charge() {
    let charge = charge(FOCUS);
    assert_eq!(charge.bill(), "AWS/1/2026-05");
    assert_eq!((charge.host_id.as_deref(), charge.is_host_time), (Some("i-0123456789abcdef0"), true));
    assert_eq!((charge.host_type.as_deref(), charge.option.as_deref()), (Some("p5.48xlarge"), Some("savings_plan")));
    assert_eq!(charge.to_us - charge.from_us, 3_600_000_000);
    assert_eq!((charge.list, charge.billed), ("55.04".parse().ok(), "0".parse().ok()));
    assert_eq!(charge.tags.get("n").map(String::as_str), Some("1"));
    // what has no place, and what a stored amount cannot hold
    let kept: Vec<_> = charge.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(
        kept.iter().find(|(name, _)| *name == "EffectiveCost"),
        Some(&("EffectiveCost", "31.46400000000012345"))
    );
    let names: Vec<_> = kept.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["EffectiveCost", "ProviderName", "ServiceCategory", "SkuPriceDetails"]);
}

#[test]
fn what_is_charged_beside_a_host_is_not_its_time() {
    for more in [
        [("PricingUnit", "GB")],
        [("ServiceCategory", "Networking")],
        [("ChargeCategory", "Credit")],
        [("ResourceId", "vol-0123456789abcdef0")],
    ] {
        assert!(!charge(&with(FOCUS, &more)).is_host_time, "{more:?}");
    }
}

#[test]
fn a_focus_row_that_is_no_charge_is_refused_with_its_reason() {
    for (name, value, reason) in [
        ("BilledCost", "", "`BilledCost` is missing"),
        ("BilledCost", "1,5", "`BilledCost`: \"1,5\" is not an amount"),
        ("ChargePeriodEnd", "2026-05-02T03:00:00Z", "not after"),
        ("ChargePeriodStart", "yesterday", "not a time"),
        ("ChargeCategory", "Gift", "`ChargeCategory` is \"gift\""),
        ("BillingCurrency", "NULL", "`BillingCurrency` is missing"),
        ("PricingQuantity", "many", "`PricingQuantity` is \"many\""),
        ("Tags", "[1]", "`Tags` is no JSON object"),
    ] {
        let refusal = read(&with(FOCUS, &[(name, value)])).expect_err(name);
        assert!(refusal.0.contains(reason), "{refusal} lacks {reason}");
    }
}

#[test]
fn the_version_is_told_by_columns() {
    let of = |more: &[(&'static str, &'static str)], less: &str| {
        let names = with(FOCUS, more).into_iter().map(|(name, _)| name).filter(|name| *name != less);
        Format::of(&Header::new(names).expect("a header")).expect("FOCUS").name()
    };
    assert_eq!(of(&[], ""), "FOCUS 1.0");
    assert_eq!(of(&[("CapacityReservationId", "")], ""), "FOCUS 1.1");
    assert_eq!(of(&[("InvoiceId", "")], ""), "FOCUS 1.2");
    assert_eq!(of(&[("ServiceProviderName", "")], ""), "FOCUS 1.3");
    assert_eq!(of(&[("ServiceProviderName", "")], "ProviderName"), "FOCUS 1.4");
    for (columns, reason) in [
        (&["a"][..], "neither FOCUS"),
        (&["BilledCost", "ListCost"], "columns missing: EffectiveCost, BillingAccountId"),
        (&["line_item_line_item_type"], "columns missing: bill_payer_account_id"),
        (&["lineItem/LineItemType"], "legacy"),
    ] {
        let refusal = Format::of(&Header::new(columns).expect("a header")).expect_err(reason);
        assert!(refusal.0.contains(reason), "{refusal}");
    }
}

const CUR: &[(&str, &str)] = &[
    ("bill_payer_account_id", "1"),
    ("bill_billing_period_start_date", "2026-05-01 00:00:00"),
    ("line_item_usage_account_id", "2"),
    ("line_item_line_item_type", "Usage"),
    ("line_item_usage_start_date", "2026-05-02T03:00:00.000Z"),
    ("line_item_usage_end_date", "2026-05-02T04:00:00.000Z"),
    ("line_item_product_code", "AmazonEC2"),
    ("line_item_usage_type", "USE1-BoxUsage:p5.48xlarge"),
    ("line_item_operation", "RunInstances"),
    ("line_item_resource_id", "i-0123456789abcdef0"),
    ("line_item_currency_code", "USD"),
    ("line_item_usage_amount", "1.0"),
    ("line_item_unblended_cost", "55.04"),
    ("pricing_public_on_demand_cost", "55.04"),
    ("product_instance_type", "p5.48xlarge"),
    ("product_region_code", "us-east-1"),
    ("savings_plan_savings_plan_a_r_n", ""),
    ("savings_plan_savings_plan_effective_cost", ""),
    ("savings_plan_total_commitment_to_date", "100"),
    ("savings_plan_used_commitment", "80.5"),
    ("reservation_reservation_a_r_n", ""),
    ("reservation_effective_cost", "30"),
    ("reservation_unused_amortized_upfront_fee_for_billing_period", "7"),
    ("reservation_unused_recurring_fee", "0.5"),
];

const PLAN: (&str, &str) = ("savings_plan_savings_plan_a_r_n", "arn:aws:savingsplans::1:savingsplan/x");
const RESERVATION: (&str, &str) = ("reservation_reservation_a_r_n", "arn:aws:ec2:us-east-1:1:reserved-instances/y");

/// List, effective and billed of each type of line, by AWS's rules, from the amounts of [`CUR`].
#[test]
fn lines_are_amortised_by_awss_rules() {
    let kind = |kind: &'static str| ("line_item_line_item_type", kind);
    let covered = [kind("SavingsPlanCoveredUsage"), PLAN, ("savings_plan_savings_plan_effective_cost", "31.464")];
    for (more, list, effective, billed) in [
        (&[][..], "55.04", "55.04", "55.04"),
        (&covered, "55.04", "31.464", "0"),
        (&[kind("SavingsPlanNegation"), PLAN, ("line_item_unblended_cost", "-55.04")], "0", "0", "0"),
        // unused: 100 committed, 80.5 used
        (&[kind("SavingsPlanRecurringFee"), PLAN], "55.04", "19.5", "55.04"),
        (&[kind("SavingsPlanUpfrontFee"), PLAN], "55.04", "0", "55.04"),
        (&[kind("DiscountedUsage"), RESERVATION, ("line_item_unblended_cost", "0")], "55.04", "30", "0"),
        // unused: 7 of the upfront fee and 0.5 of the recurring one
        (&[kind("RIFee"), RESERVATION], "55.04", "7.5", "55.04"),
        (&[kind("Fee"), RESERVATION], "55.04", "0", "55.04"),
        (&[kind("Fee")], "55.04", "55.04", "55.04"),
        (&[kind("Tax")], "55.04", "55.04", "55.04"),
    ] {
        let charge = charge(&with(CUR, more));
        let expected = (list.parse().ok(), effective.parse().ok(), billed.parse().ok());
        assert_eq!((charge.list, charge.effective, charge.billed), expected, "{more:?}");
    }
}

#[test]
fn purchase_options_of_cur() {
    let spot = [
        ("line_item_usage_type", "USE1-SpotUsage:inf2.48xlarge"),
        ("product_instance_type", ""),
        ("line_item_line_item_description", "inf2.48xlarge Linux/UNIX Spot Instance-hour in US East"),
    ];
    let covered = [
        ("line_item_line_item_type", "SavingsPlanCoveredUsage"),
        PLAN,
        ("savings_plan_savings_plan_effective_cost", "1"),
    ];
    for (more, option, host_type) in [
        (&[][..], "on_demand", "p5.48xlarge"),
        (&spot, "spot", "inf2.48xlarge"),
        (&covered, "savings_plan", "p5.48xlarge"),
        (&[("line_item_line_item_type", "DiscountedUsage"), RESERVATION], "reserved", "p5.48xlarge"),
    ] {
        let charge = charge(&with(CUR, more));
        assert_eq!((charge.option.as_deref(), charge.host_type.as_deref()), (Some(option), Some(host_type)));
        assert!(charge.is_host_time, "{option}");
    }
    assert!(!charge(&with(CUR, &[("line_item_usage_type", "USE1-DataTransfer-Out-Bytes")])).is_host_time);
}

/// They repeat what the rows of the instances say.
#[test]
fn split_rows_of_containers_are_left_out_on_purpose() {
    assert!(matches!(read(&with(CUR, &[("line_item_operation", "EKSPod-EC2")])), Ok(Read::LeftOut(_))));
    let unknown =
        charge(&with(CUR, &[("line_item_line_item_type", "EdpDiscount"), ("line_item_unblended_cost", "-3")]));
    assert_eq!(
        (unknown.category, unknown.effective),
        (None, "-3".parse().ok()),
        "a type we do not know is money all the same"
    );
}

/// A month begins at its instant, however the bill writes it: seven hours after midnight in UTC is the same day's month, and seventeen o'clock
/// seven hours behind it the next one's.
#[test]
fn a_period_is_that_of_the_instant() {
    for (text, period) in [
        ("2026-10-31T17:00:00-07:00", "2026-11"),
        ("20261101", "2026-11"),
        ("2026-11-01T07:00:00+07:00", "2026-11"),
        ("2026-11-01", "2026-11"),
    ] {
        assert_eq!(charge(&with(FOCUS, &[("BillingPeriodStart", text)])).period, period, "{text}");
        assert_eq!(charge(&with(CUR, &[("bill_billing_period_start_date", text)])).period, period, "{text}");
    }
}

/// A wrong century is refused with what it is and what to do; the fee of a commitment of three years is not.
#[test]
fn a_charge_of_a_century_is_refused() {
    let of = |to| with(FOCUS, &[("ChargePeriodEnd", to)]);
    let refusal = read(&of("2126-05-02T03:00:00Z")).expect_err("a century");
    for told in ["36524 days", "more than 1830", "correct the two dates", "--skip-refused"] {
        assert!(refusal.0.contains(told), "{told} in {refusal}");
    }
    assert!(read(&of("2029-05-02T03:00:00Z")).is_ok());
    assert!(read(&with(CUR, &[("line_item_usage_end_date", "2126-05-02T03:00:00Z")])).is_err());
}

/// Tags that nobody can read are not lost: the text is kept and the row says so.
#[test]
fn tags_of_cur_that_are_no_object_are_kept_and_told() {
    let odd = charge(&with(CUR, &[("resource_tags", "{\"team\": \"search\"")]));
    assert_eq!(odd.attributes.get("resource_tags").map(String::as_str), Some("{\"team\": \"search\""));
    assert!(odd.tags.is_empty() && odd.notes.len() == 1, "{odd:?}");
    let plain = charge(&with(CUR, &[("resource_tags", "{\"team\": \"search\"}")]));
    assert_eq!(plain.tags.get("team").map(String::as_str), Some("search"));
    assert!(plain.notes.is_empty() && !plain.attributes.contains_key("resource_tags"), "{plain:?}");
}
