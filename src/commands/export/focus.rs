//! `tokenwatt export focus`: what each hour of each host cost and for whom, as FOCUS 1.4 rows with the columns of split cost
//! allocation, which FinOps tools read.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};
use service::{Deps, Error, Result};
use telemetry::contract::{QueryApi, SqlAnswer, SqlRequest};
use telemetry::record::{instant, month, rfc3339};

use crate::cli::Common;
use crate::failure::{CANNOT_CREATE, Failure};
use crate::{print, settings};

#[derive(Args)]
pub(crate) struct Focus {
    /// First instant: a date or RFC 3339, the start of an hour
    #[arg(long, value_name = "TIME")]
    from: String,
    /// First instant that is no longer in it
    #[arg(long, value_name = "TIME")]
    to: String,
    /// File to write
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// What the rows name as their billing account
    #[arg(long, value_name = "ID", default_value = "tokenwatt")]
    account: String,
}

const HOUR_US: i64 = 3_600_000_000;
/// Rows of one hour: hosts times whom they worked for.
const ROWS_MAX: usize = 1_000_000;

/// The columns written, FOCUS 1.4's and those of ours, which begin with `x_` as it asks.
const COLUMNS: [&str; 38] = [
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodStart",
    "BillingPeriodEnd",
    "ChargePeriodStart",
    "ChargePeriodEnd",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ServiceProviderName",
    "HostProviderName",
    "InvoiceIssuerName",
    "ServiceCategory",
    "ServiceSubcategory",
    "ServiceName",
    "RegionId",
    "RegionName",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "PricingQuantity",
    "PricingUnit",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ListCost",
    "ContractedCost",
    "EffectiveCost",
    "BilledCost",
    "AllocatedMethodId",
    "AllocatedMethodDetails",
    "AllocatedResourceId",
    "AllocatedResourceName",
    "AllocatedTags",
    "Tags",
    "x_Basis",
    "x_PriceAsOf",
];

pub(super) async fn run(common: &Common, flags: &Focus) -> std::result::Result<(), Failure> {
    let (from_us, to_us) = stretch(&flags.from, &flags.to)?;
    let config = settings::load_quietly(common)?.config;
    let deps = Deps::system();
    let lakes = config.lakes_to_read(&deps).await?;
    let settings = query::Config { cache_disk_bytes: 0, max_rows: ROWS_MAX, ..config.query() };
    let query = query::build(settings, lakes, deps).await?;
    // what is under its name is whole: whoever reads it meanwhile reads the one before
    let part = beside(&flags.file);
    let done = match write(&query, (from_us, to_us), &flags.account, &part).await {
        Ok(rows) => std::fs::rename(&part, &flags.file).map(|()| rows).map_err(|e| cannot_write(&flags.file, e.into())),
        Err(failure) => Err(failure),
    };
    if done.is_err() {
        // the failure is told, and an export that is run again writes this file anew
        let _gone = std::fs::remove_file(&part);
    }
    let (written, unpriced) = done?;
    print::line(format!("{}  {written} rows", flags.file.display()));
    if unpriced > 0 {
        print::line(format!("left out {unpriced} rows without a price: FOCUS has no unknown cost; see view unpriced"));
    }
    Ok(())
}

/// The unfinished file beside the one that is asked for.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

/// Writes all hours. Gives the rows written, and those left out because they have no price.
async fn write(
    query: &query::Query,
    (from_us, to_us): (i64, i64),
    account: &str,
    file: &Path,
) -> std::result::Result<(u64, u64), Failure> {
    let cannot = |error: csv::Error| cannot_write(file, error);
    let mut writer = csv::Writer::from_path(file).map_err(cannot)?;
    writer.write_record(COLUMNS).map_err(cannot)?;
    let (mut written, mut unpriced) = (0, 0);
    for hour_us in (from_us..to_us).step_by(usize::try_from(HOUR_US).unwrap_or(usize::MAX)) {
        let answer = ask(query, hour_us).await?;
        for row in &answer.rows {
            match focus(&Row::of(&answer, row), hour_us, account)? {
                Some(fields) => {
                    writer.write_record(&fields).map_err(cannot)?;
                    written += 1;
                }
                None => unpriced += 1,
            }
        }
    }
    let whole = writer.into_inner().map_err(|error| cannot(error.into_error().into()))?;
    whole.sync_all().map_err(|error| cannot(error.into()))?;
    Ok((written, unpriced))
}

fn stretch(from: &str, to: &str) -> Result<(i64, i64)> {
    let read = |name: &str, text: &str| {
        let us = instant(text)
            .ok_or_else(|| Error::invalid(format!("--{name} is {text:?}, not a time such as 2026-11-01")))?;
        if us % HOUR_US != 0 {
            return Err(Error::invalid(format!("--{name} is not the start of an hour")));
        }
        Ok(us)
    };
    let (from_us, to_us) = (read("from", from)?, read("to", to)?);
    if to_us <= from_us {
        return Err(Error::invalid("--to is not after --from"));
    }
    Ok((from_us, to_us))
}

async fn ask(query: &query::Query, hour_us: i64) -> std::result::Result<SqlAnswer, Failure> {
    let params = [("from", hour_us), ("to", hour_us + HOUR_US)];
    let params = params.into_iter().map(|(name, us)| (name.to_owned(), Value::from(rfc3339(us))));
    let request =
        SqlRequest { sql: include_str!("focus.sql").to_owned(), params: params.collect(), ..SqlRequest::default() };
    let answer = query.sql(request).await?;
    if answer.truncated {
        return Err(Error::too_large(format!("an hour has more than {ROWS_MAX} rows")).into());
    }
    Ok(answer)
}

/// A row of the answer by name.
struct Row<'a> {
    answer: &'a SqlAnswer,
    values: &'a [Value],
}

impl<'a> Row<'a> {
    fn of(answer: &'a SqlAnswer, values: &'a [Value]) -> Row<'a> {
        Row { answer, values }
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        let place = self.answer.columns.iter().position(|column| column.name == name)?;
        self.values.get(place).filter(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        self.get(name)?.as_str()
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.get(name)?.as_f64()
    }
}

/// The fields of [`COLUMNS`]; `None` for a row whose cost is unknown.
fn focus(row: &Row<'_>, hour_us: i64, account: &str) -> Result<Option<Vec<String>>> {
    let Some(list) = row.text("list_cost").or_else(|| row.text("effective_cost")) else { return Ok(None) };
    // What no bill knows of is estimated, and invoiced by nobody.
    let effective = row.text("effective_cost").unwrap_or(list);
    let billed = row.text("billed_cost").unwrap_or("0");
    let part = row.text("part").unwrap_or("unattributed");
    // Padding, idle and whole hosts are split by something else than requests.
    let method = row.text("method").unwrap_or_default().replace(' ', "-");
    let (month, next) = month(hour_us).ok_or_else(|| Error::invalid("a time beyond the calendar"))?;
    let whom = row.text("tenant").map_or_else(|| format!("no tenant ({part})"), str::to_owned);
    let region = row.text("region").unwrap_or_default();
    let host = row.text("host_id").unwrap_or_default();
    let seconds = row.number("device_us").map(|us| us / 1e6);
    let tokens = row.number("tokens");
    // A unit of nothing known is none.
    let known = |number: Option<f64>, unit: &'static str| if number.is_some() { unit } else { "" };
    let tags = |names: &[&str]| -> Map<String, Value> {
        names.iter().filter_map(|name| Some(((*name).to_owned(), row.get(name)?.clone()))).collect()
    };
    let details = json!({"x_Part": part, "x_Method": row.text("method"), "x_DeviceSeconds": seconds, "x_EnergyJoules": row.get("energy_j")});
    let fields: [&str; COLUMNS.len()] = [
        account,
        account,
        "USD",
        &month,
        &next,
        &rfc3339(hour_us),
        &rfc3339(hour_us + HOUR_US),
        "Usage",
        "",
        &format!("{part} of inference on {}", row.text("host_type").unwrap_or("a host of unknown type")),
        "Usage-Based",
        "Tokenwatt",
        "",
        "Tokenwatt",
        "AI and Machine Learning",
        "Generative AI",
        "LLM inference",
        region,
        region,
        host,
        host,
        if host.is_empty() { "" } else { "Virtual Machine" },
        &seconds.map(|seconds| format!("{:.6}", seconds / 3600.0)).unwrap_or_default(),
        known(seconds, "Hours"),
        &tokens.map(|tokens| tokens.to_string()).unwrap_or_default(),
        known(tokens, "Tokens"),
        list,
        list,
        effective,
        billed,
        &method,
        &details.to_string(),
        &whom,
        &whom,
        &Value::Object(tags(&["tenant", "namespace", "environment", "model", "part"])).to_string(),
        &Value::Object(tags(&["cluster", "pool", "host_type"])).to_string(),
        row.text("basis").unwrap_or_default(),
        row.text("price_as_of").unwrap_or_default(),
    ];
    Ok(Some(fields.map(str::to_owned).to_vec()))
}

fn cannot_write(path: &Path, error: csv::Error) -> Failure {
    let error = Error::invalid(format!("cannot write {}", path.display())).with_source(error);
    Failure::new(CANNOT_CREATE, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use telemetry::contract::AnswerColumn;

    fn exported(names: &[&str], values: Vec<Value>) -> impl Fn(&str) -> String {
        let column =
            |name: &&str| AnswerColumn { name: (*name).to_owned(), kind: String::new(), unit: None, comment: None };
        let columns = names.iter().map(column).collect();
        let answer = SqlAnswer { columns, ..SqlAnswer::default() };
        let fields = focus(&Row::of(&answer, &values), 0, "a").expect("a row").expect("a price");
        move |name| fields[COLUMNS.iter().position(|column| *column == name).expect("a column")].clone()
    }

    /// A whole host that counts no device time worked for an unknown time, not for none.
    #[test]
    fn what_is_unknown_is_empty() {
        let names = ["list_cost", "method", "device_us", "tokens"];
        let of = exported(&names, vec![json!("1.5"), json!("whole host"), Value::Null, Value::Null]);
        for name in ["PricingQuantity", "PricingUnit", "ConsumedQuantity", "ConsumedUnit"] {
            assert_eq!(of(name), "", "{name}");
        }
        assert!(of("AllocatedMethodDetails").contains("\"x_DeviceSeconds\":null"));
        assert_eq!(of("AllocatedMethodId"), "whole-host");
        let of = exported(&names, vec![json!("1.5"), json!("device time"), json!(1_800_000_000), json!(0)]);
        assert_eq!([of("PricingQuantity"), of("PricingUnit")], ["0.500000", "Hours"]);
        assert_eq!([of("ConsumedQuantity"), of("ConsumedUnit")], ["0", "Tokens"]);
        assert_eq!(of("AllocatedMethodId"), "device-time");
    }
}
