//! `tokenwatt what-if`: recorded calls, reckoned on another machine, in another region, bought otherwise.

use clap::Args;
use telemetry::contract::SqlAnswer;

use super::sql;
use crate::cli::Common;
use crate::failure::Failure;
use crate::print;

#[derive(Args)]
pub(crate) struct Flags {
    /// Instance type: inf2.48xlarge, trn1.32xlarge, p5.48xlarge or p6-b200.48xlarge
    #[arg(long, value_name = "TYPE")]
    host_type: String,
    /// Cloud region, whose price and grid are taken
    #[arg(long)]
    region: String,
    /// Purchase option: on_demand, spot, savings_plan, reserved, capacity_block or custom
    #[arg(long, default_value = "on_demand")]
    option: String,
    /// Most sequences that a replica decodes at once
    #[arg(long, value_name = "N", default_value_t = 8)]
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

/// Columns that are lines of their own below a model's name.
const SHOWN: &str = "model, calls, output_tokens, round(seconds / 3600, 2) AS hours, replicas, hosts, round(utilization, 3) AS utilization, \
    round(tpot_ms, 2) AS tpot_ms, round(prompt_ms, 1) AS prompt_ms, usd_per_hour, \
    round(usd_per_million_output_tokens, 4) AS usd_per_million_output_tokens, \
    round(recorded_usd_per_million_output_tokens, 4) AS recorded_usd_per_million_output_tokens, round(watts, 0) AS watts, \
    round(joules_per_output_token, 4) AS joules_per_output_token, round(gco2e_per_hour, 1) AS gco2e_per_hour, assumes";

pub(crate) async fn run(common: &Common, flags: &Flags) -> Result<(), Failure> {
    let answer: SqlAnswer = sql::answer(common, flags.server.as_deref(), &statement(flags)).await?;
    if answer.rows.is_empty() {
        print::line("no calls with a model in that stretch");
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

fn statement(flags: &Flags) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let stretch = match (&flags.from, &flags.to) {
        (Some(from), Some(to)) => format!(", {}, {}", quoted(from), quoted(to)),
        _ => String::new(),
    };
    let (host_type, region, option) = (quoted(&flags.host_type), quoted(&flags.region), quoted(&flags.option));
    format!("SELECT {SHOWN} FROM what_if({host_type}, {region}, {option}, {}{stretch}) ORDER BY model", flags.batch)
}
