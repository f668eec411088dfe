//! What a request cost, with the basis of every figure, and all that is known about it.

use leptos::prelude::*;
use serde_json::Value;
use telemetry::contract::{AnswerColumn, SqlAnswer};
use viz::format::{self, Unit};

use super::Key;
use crate::ask::{Answer, Row};
use crate::sql::{Where, literal};

/// The minutes in which it ran, as the rows of the views by minute are named.
fn minutes(key: &Key<'_>) -> (i64, i64) {
    const MINUTE: i64 = 60_000_000;
    (key.own.0.div_euclid(MINUTE) * MINUTE, key.own.1 + MINUTE)
}

/// A minute without a price leaves the whole without one.
pub(super) fn cost_sql(key: &Key<'_>) -> String {
    let filter = Where::span(minutes(key))
        .and_equal("host_id", key.host.as_deref())
        .and(format!("trace_id = {}", literal(key.trace)))
        .and(format!("request_span_id = {}", literal(key.span)));
    format!(
        "SELECT CASE WHEN count(cost_usd) = count(*) THEN sum(cost_usd) END AS cost_usd,\n  \
         sum(device_us) AS device_us, sum(output_tokens) AS output_tokens,\n  \
         string_agg(DISTINCT basis, ', ') AS basis, string_agg(DISTINCT method, ', ') AS method, max(host_type) AS host_type\n\
         FROM request_minute_cost\n{}",
        filter.clause()
    )
}

/// Of each minute's joules the share that the request had of the host's time; what padding and idle time used is
/// theirs.
pub(super) fn energy_sql(key: &Key<'_>) -> String {
    let host = key.host.as_deref();
    let minutes = Where::span(minutes(key)).and_equal("host_id", host);
    let own = Where::span(key.own)
        .and_equal("host_id", host)
        .and(format!("trace_id = {}", literal(key.trace)))
        .and(format!("request_span_id = {}", literal(key.span)));
    format!(
        "WITH own AS (\n  SELECT (CAST(time AS BIGINT) - 1) / 60000000 AS minute, host_id, sum(device_us) AS device_us\n  \
         FROM tokens\n  {own}\n  GROUP BY 1, 2\n),\n\
         wall AS (\n  SELECT minute, host_id, sum(wall_us) AS wall_us FROM engine_minutes\n  {minutes}\n  GROUP BY minute, host_id\n),\n\
         energy AS (\n  SELECT minute, host_id, joules, boundary, method, confidence FROM host_energy\n  {minutes}\n)\n\
         SELECT sum(energy.joules * own.device_us / wall.wall_us) AS energy_j,\n  \
         string_agg(DISTINCT energy.boundary, ', ') AS boundary,\n  \
         string_agg(DISTINCT energy.method, ', ') AS method,\n  \
         string_agg(DISTINCT energy.confidence, ', ') AS confidence\n\
         FROM own\nJOIN wall ON wall.minute = own.minute AND wall.host_id = own.host_id\n\
         JOIN energy ON energy.minute = own.minute AND energy.host_id = own.host_id",
        own = own.clause(),
        minutes = minutes.clause(),
    )
}

/// What it cost, and what that stands on.
pub(super) fn cost(answer: &Answer, request: &Row<'_>) -> AnyView {
    let Some(row) = answer.first().filter(|row| row.number("device_us").is_some()) else {
        return view! { <p class="hint">"No cost is known yet: its minute is not closed, or its engine gave no device time."</p> }.into_any();
    };
    let cost = row.number("cost_usd");
    let device = row.number("device_us");
    let per_million =
        cost.zip(row.number("output_tokens").filter(|tokens| *tokens > 0.0)).map(|(cost, tokens)| cost / tokens * 1e6);
    let basis = row.text("basis").unwrap_or(format::UNKNOWN).to_owned();
    let reason = cost.is_none().then(|| {
        let host_type = row.text("host_type").unwrap_or("its host type");
        view! { <small class="warn">{format!("no price for {host_type}")}</small> }
    });
    let share = |column: &str| format::text(request.number(column), Unit::Micros);
    view! {
        <table class="facts"><tbody>
            <tr><th scope="row">"cost"</th><td class="num"><b>{format::text(cost, Unit::Usd)}</b>{reason}</td></tr>
            <tr><th scope="row">"device time"<small>{format!("prefill {}, decode {}", share("device_us_prefill"), share("device_us_decode"))}</small></th>
                <td class="num">{format::text(device, Unit::Micros)}</td></tr>
            <tr><th scope="row">"per million output tokens"<small>"of this request, idle time left out"</small></th>
                <td class="num">{format::text(per_million, Unit::Usd)}</td></tr>
            <tr><th scope="row">"price"</th><td class="num">{basis}</td></tr>
            <tr><th scope="row">"method"</th><td class="num">{row.text("method").unwrap_or(format::UNKNOWN).to_owned()}</td></tr>
        </tbody></table>
    }
    .into_any()
}

/// What it used, and how that is known.
pub(super) fn energy(answer: &Answer) -> AnyView {
    let row = answer.first();
    let joules = row.as_ref().and_then(|row| row.number("energy_j"));
    if joules.is_none() {
        return view! { <p class="hint">"No energy is known for its host in that time."</p> }.into_any();
    }
    let text = |column: &str| row.as_ref().and_then(|row| row.text(column)).unwrap_or(format::UNKNOWN).to_owned();
    let flag = text("confidence").contains("assumed").then(|| view! { <span class="flag">"assumed"</span> });
    view! {
        <table class="facts"><tbody>
            <tr><th scope="row">"energy "{flag}</th><td class="num"><b>{format::text(joules, Unit::Joules)}</b></td></tr>
            <tr><th scope="row">"boundary"</th><td class="num">{text("boundary")}</td></tr>
            <tr><th scope="row">"method"</th><td class="num">{text("method")}</td></tr>
            <tr><th scope="row">"watts"</th><td class="num">{text("confidence")}</td></tr>
        </tbody></table>
    }
    .into_any()
}

/// A column's value in its unit; what has none is shown as it is.
fn shown(column: &AnswerColumn, value: &Value) -> String {
    let number = value.as_f64().or_else(|| value.as_str().and_then(|text| text.parse().ok()));
    match (value, number, column.unit.as_deref().and_then(unit_of)) {
        (Value::Null, _, _) => format::UNKNOWN.to_owned(),
        (_, Some(number), Some(unit)) => format::text(Some(number), unit),
        (Value::String(text), _, _) => text.clone(),
        (other, _, _) => other.to_string(),
    }
}

/// Our unit for a UCUM one.
fn unit_of(ucum: &str) -> Option<Unit> {
    Some(match ucum {
        "s" => Unit::Seconds,
        "us" => Unit::Micros,
        "J" => Unit::Joules,
        "W" => Unit::Watts,
        "By" => Unit::Bytes,
        "{token}" => Unit::Tokens,
        "USD" | "[USD]" | "$" => Unit::Usd,
        "USD/h" | "[USD]/h" => Unit::UsdPerHour,
        _ => return None,
    })
}

/// Every column of the request that holds a value, then the attributes that have no column.
pub(super) fn table(row: &Row<'_>) -> AnyView {
    let raw: &SqlAnswer = row.answer().raw();
    let lines =
        raw.columns.iter().zip(row.values()).filter(|(column, value)| !value.is_null() && column.name != "attributes");
    let lines: Vec<_> = lines
        .filter(|(_, value)| value.as_str() != Some(""))
        .map(|(column, value)| fact(&column.name, shown(column, value)))
        .collect();
    let others: Vec<_> = match row.map("attributes") {
        Some(map) => map
            .iter()
            .map(|(name, value)| fact(name, value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
            .collect(),
        None => Vec::new(),
    };
    view! { <div class="scroll short" tabindex="0" role="region" aria-label="Attributes, table"><table class="facts"><tbody>{lines}{others}</tbody></table></div> }
        .into_any()
}

fn fact(name: &str, value: String) -> AnyView {
    view! { <tr><th scope="row">{name.to_owned()}</th><td>{value}</td></tr> }.into_any()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_carry_the_unit_that_the_view_declares() {
        let column = |unit: Option<&str>| AnswerColumn {
            name: "x".into(),
            kind: "DOUBLE".into(),
            unit: unit.map(str::to_owned),
            comment: None,
        };
        assert_eq!(shown(&column(Some("USD")), &json!("0.000412000000")), "$0.000412");
        assert_eq!(shown(&column(Some("J")), &json!(null)), format::UNKNOWN);
        assert_eq!(shown(&column(None), &json!("assumed")), "assumed");
    }
}
