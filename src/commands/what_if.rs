//! `tokenwatt what-if`: recorded calls, reckoned on another machine, in another region, bought otherwise.

use clap::Args;
use clap::builder::PossibleValuesParser;
use service::{Deps, Error, Kind};
use telemetry::contract::SqlAnswer;
use telemetry::price::OPTIONS;
use telemetry::record::rfc3339;
use telemetry::whatif::HOST_TYPES;

use super::sql;
use super::stretch::{self, minute};
use crate::cli::Common;
use crate::failure::Failure;
use crate::print;

#[derive(Args)]
pub(crate) struct Flags {
    /// Instance type
    #[arg(long, value_name = "TYPE", value_parser = PossibleValuesParser::new(HOST_TYPES))]
    host_type: String,
    /// Cloud region, whose price and grid are taken
    #[arg(long)]
    region: String,
    /// Purchase option
    #[arg(long, default_value = "on_demand", value_parser = PossibleValuesParser::new(OPTIONS))]
    option: String,
    /// Most sequences that a replica decodes at once
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=BATCH_MAX))]
    batch: u32,
    /// First instant of the calls [default: 24 hours ago]
    #[arg(long, value_name = "TIME", requires = "to")]
    from: Option<String>,
    /// The instant after the last of them
    #[arg(long, value_name = "TIME", requires = "from")]
    to: Option<String>,
    /// Ask the query service at this address instead of reading --data
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

const MINUTE_US: i64 = 60_000_000;
const DAY_US: i64 = 1_440 * MINUTE_US;

/// Columns that are lines of their own below a model's name.
const SHOWN: &str = "model, calls, output_tokens, round(seconds / 3600, 2) AS hours, replicas, hosts, round(utilization, 3) AS utilization, \
    round(tpot_ms, 2) AS tpot_ms, round(prompt_ms, 1) AS prompt_ms, usd_per_hour, effective_usd_per_hour, \
    round(usd_per_million_output_tokens, 4) AS usd_per_million_output_tokens, \
    round(effective_usd_per_million_output_tokens, 4) AS effective_usd_per_million_output_tokens, \
    round(recorded_usd_per_million_output_tokens, 4) AS recorded_usd_per_million_output_tokens, \
    round(recorded_effective_usd_per_million_output_tokens, 4) AS recorded_effective_usd_per_million_output_tokens, round(watts, 0) AS watts, \
    round(joules_per_output_token, 4) AS joules_per_output_token, round(gco2e_per_hour, 1) AS gco2e_per_hour, assumes";

/// Largest batch that is reckoned.
const BATCH_MAX: i64 = 4_096;
/// Regions named to who means another one.
const REGIONS_SHOWN: usize = 60;

pub(crate) async fn run(common: &Common, flags: &Flags) -> Result<(), Failure> {
    let now_us = Deps::system().clock.now_us();
    if let (Some(from), Some(to)) = (&flags.from, &flags.to) {
        stretch::read(from, to, now_us)?;
    }
    let ask = async |sql: &str| sql::answer(common, flags.server.as_deref(), sql).await;
    let answer: SqlAnswer = ask(&statement(flags)).await?;
    if answer.rows.is_empty() {
        return Err(no_calls(flags, &ask(RECORDED).await?).into());
    }
    if is_without_price(&answer) {
        // what this reader may not see is no reason to refuse
        let known = ask(REGIONS).await.map(|answer| texts(&answer)).unwrap_or_default();
        is_known(&flags.region, &known)?;
    }
    for row in &answer.rows {
        let mut pairs = Vec::new();
        for (column, value) in answer.columns.iter().zip(row) {
            let text = match value {
                serde_json::Value::Null => "—".to_owned(),
                serde_json::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            match column.name.as_str() {
                // One assumption a line, none of them hidden in the middle of another.
                "assumes" => pairs.extend(text.split("; ").map(|line| ("assumes".to_owned(), line.to_owned()))),
                name => pairs.push((name.to_owned(), text)),
            }
        }
        print::pairs(&pairs);
        print::line("");
    }
    Ok(())
}

/// When calls with a model were recorded.
const RECORDED: &str =
    "SELECT CAST(min(time) AS BIGINT), CAST(max(time) AS BIGINT) FROM requests_minutes WHERE model IS NOT NULL";
/// Regions that have a price or a grid.
const REGIONS: &str = "SELECT region FROM (SELECT region FROM prices UNION SELECT region FROM grid) WHERE region IS NOT NULL ORDER BY region";

/// What there is instead of calls in the stretch that was asked for.
fn no_calls(flags: &Flags, recorded: &SqlAnswer) -> Error {
    let when = match (&flags.from, &flags.to) {
        (Some(from), Some(to)) => format!("from {from} to {to}"),
        _ => "in the last 24 hours".to_owned(),
    };
    let at = |place: usize| recorded.rows.first()?.get(place)?.as_i64();
    let hint = match (at(0), at(1)) {
        (Some(first), Some(last)) => {
            let last = last + MINUTE_US;
            format!(
                "calls are recorded from {} to {}: ask for --from {} --to {}",
                minute(first),
                minute(last),
                rfc3339(first.max(last - DAY_US)),
                rfc3339(last)
            )
        }
        _ => "no calls are recorded there at all: is it the right --data or --server?".to_owned(),
    };
    Error::new(Kind::NotFound, format!("no calls with a model {when}")).with_hint(hint)
}

/// Whether no row of the answer has a price, as where nobody knows the region.
fn is_without_price(answer: &SqlAnswer) -> bool {
    let price = answer.columns.iter().position(|column| column.name == "usd_per_hour");
    price.is_some_and(|price| answer.rows.iter().all(|row| row.get(price).is_none_or(serde_json::Value::is_null)))
}

fn texts(answer: &SqlAnswer) -> Vec<String> {
    answer.rows.iter().filter_map(|row| Some(row.first()?.as_str()?.to_owned())).collect()
}

/// A region of which nobody knows a price or a grid has no answer: it is mistyped, or its prices are not imported.
fn is_known(region: &str, known: &[String]) -> Result<(), Error> {
    if known.is_empty() || known.iter().any(|known| known == region) {
        return Ok(());
    }
    let shown = known.iter().take(REGIONS_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    let error = Error::new(
        Kind::NotFound,
        format!("nothing is known of region {region:?}: it has neither a price nor a grid factor"),
    );
    Err(error.with_hint(format!("take one of {shown}; or import its prices (`tokenwatt import prices`)")))
}

fn statement(flags: &Flags) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let stretch = match (&flags.from, &flags.to) {
        (Some(from), Some(to)) => format!(", {}, {}", quoted(from), quoted(to)),
        _ => String::new(),
    };
    let (host_type, region, option) = (quoted(&flags.host_type), quoted(&flags.region), quoted(&flags.option));
    format!("SELECT {SHOWN} FROM what_if({host_type}, {region}, {option}, {}{stretch}) ORDER BY model", flags.batch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_that_nobody_knows_is_refused_with_those_that_are_known() {
        let known = ["eu-west-1", "us-east-1"].map(str::to_owned);
        assert!(is_known("us-east-1", &known).is_ok() && is_known("mine", &[]).is_ok());
        let refused = is_known("us-esst-1", &known).expect_err("mistyped");
        let hint = refused.hint().expect("what to do");
        assert!(
            refused.to_string().contains("us-esst-1") && hint.contains("eu-west-1, us-east-1; or import its prices"),
            "{hint}"
        );
    }

    /// Who asks for a day without calls is told when there were some, in words that can be typed.
    #[test]
    fn an_empty_stretch_says_when_calls_were_recorded() {
        let flags = |from: Option<&str>| Flags {
            host_type: HOST_TYPES[0].to_owned(),
            region: "us-east-1".to_owned(),
            option: OPTIONS[0].to_owned(),
            batch: 8,
            from: from.map(str::to_owned),
            to: from.map(|_| "2026-11-02".to_owned()),
            server: None,
        };
        let recorded = |rows| SqlAnswer { rows, ..SqlAnswer::default() };
        let noon = 1_795_953_600_000_000_i64;
        let some = recorded(vec![vec![noon.into(), (noon + 59 * MINUTE_US).into()]]);
        let error = no_calls(&flags(Some("2026-11-01")), &some);
        assert_eq!(error.to_string(), "no calls with a model from 2026-11-01 to 2026-11-02");
        let hint = error.hint().expect("what to do");
        assert!(hint.contains("from 2026-11-29 12:00 UTC to 2026-11-29 13:00 UTC"), "{hint}");
        assert!(hint.ends_with("--from 2026-11-29T12:00:00Z --to 2026-11-29T13:00:00Z"), "{hint}");
        let none = no_calls(&flags(None), &recorded(vec![vec![serde_json::Value::Null; 2]]));
        assert!(
            none.to_string().contains("in the last 24 hours")
                && none.hint().is_some_and(|hint| hint.contains("right --data"))
        );
    }
}
