//! An answer over time as lines: a column of times, numbers, and perhaps names.

use std::collections::BTreeMap;

use leptos::prelude::*;
use telemetry::contract::AnswerColumn;
use viz::chart::{Line, LineChart};
use viz::colour;
use viz::format::Unit;

use super::is_number;
use crate::ask::Answer;
use crate::panel::plot::line_chart;

/// Lines drawn at most; more cannot be told apart.
const LINES: usize = 12;

/// The picture, if the answer has one: at least two moments, and numbers.
pub(super) fn of(answer: &Answer) -> Option<AnyView> {
    let chart = chart(answer)?;
    Some(view! { <details class="data" open=""><summary>"Chart"</summary>{line_chart(&chart)}</details> }.into_any())
}

fn chart(answer: &Answer) -> Option<LineChart> {
    let columns = &answer.raw().columns;
    let time = columns.iter().find(|column| column.kind.to_ascii_lowercase().contains("timestamp"))?;
    let numbers: Vec<&AnswerColumn> = columns.iter().filter(|column| is_number(column)).collect();
    let name = columns.iter().find(|column| **column != *time && !is_number(column));
    let first = *numbers.first()?;
    let mut at_us: Vec<i64> = answer.rows().filter_map(|row| row.time(&time.name)).collect();
    at_us.sort_unstable();
    at_us.dedup();
    let step_us = at_us.windows(2).map(|pair| pair[1] - pair[0]).min().filter(|step| *step > 0)?;
    let mut lines: BTreeMap<String, Vec<Option<f64>>> = BTreeMap::new();
    for row in answer.rows() {
        let Some(place) = row.time(&time.name).and_then(|at| at_us.binary_search(&at).ok()) else { continue };
        // With names the first number is drawn, one line a name; without, every number of the first one's unit.
        let values: Vec<(String, Option<f64>)> = match name {
            Some(name) => vec![(row.text(&name.name).unwrap_or("NULL").to_owned(), row.number(&first.name))],
            None => numbers
                .iter()
                .filter(|column| column.unit == first.unit)
                .map(|column| (column.name.clone(), row.number(&column.name)))
                .collect(),
        };
        for (line, value) in values {
            let line = lines.entry(line).or_insert_with(|| vec![None; at_us.len()]);
            if let Some(slot) = line.get_mut(place) {
                *slot = value;
            }
        }
    }
    if lines.len() > LINES {
        return None;
    }
    let names: Vec<String> = lines.keys().cloned().collect();
    let series = lines.into_iter().zip(colour::slots(&names)).map(|((name, values), slot)| Line { name, slot, values });
    let span_us = (*at_us.first()?, at_us.last()?.saturating_add(step_us));
    Some(LineChart {
        title: format!("{} over time", first.name),
        unit: if first.unit.as_deref() == Some("s") { Unit::Seconds } else { Unit::Plain },
        span_us,
        zone: crate::zone::over(span_us),
        step_us,
        at_us: at_us.clone(),
        series: series.collect(),
        limit: None,
        complete_until_us: span_us.1,
    })
}
