//! Prices and bills come in by the command line, and come to what an independent reader says.

use std::path::Path;

use crate::world::{World, client, finish, repository, tokenwatt};

/// Runs `tokenwatt import …` on the world's lake: its exit code and all that it said.
fn import(world: &World, args: &[&str]) -> (i32, String) {
    let mut command = tokenwatt(&["import"]);
    command.args(args).arg("--data").arg(world.lake()).current_dir(world.path());
    let output = finish(&mut command);
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().expect("an end of its own"), String::from_utf8_lossy(&said).into_owned())
}

fn sql(world: &World, statement: &str) -> String {
    let mut command = tokenwatt(&["sql", statement, "--format", "csv"]);
    let output = finish(command.arg("--data").arg(world.lake()).current_dir(world.path()));
    assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("utf-8")
}

/// The public FOCUS samples and a made-up month of an accelerator fleet, as FOCUS and as CUR, in CSV, gzip and Parquet: every row is
/// there, and DuckDB, which reads files and tables by itself, comes to the same sums to the last decimal. A second import of each
/// changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn bills_come_to_what_duckdb_says() {
    let world = World::new();
    client("bills.py", &["make", text(world.path())], &[]);
    let files = [
        (repository("tests/data/focus_1_0_sample.csv.gz"), "FOCUS 1.0", 1_000),
        (repository("tests/data/focus_1_3_aws.csv.gz"), "FOCUS 1.3", 1_000),
        (world.path().join("focus.parquet"), "FOCUS 1.4", 12 * 31 * 24),
        // three lines of each of four covered hosts, two of four spot hosts, one of four others
        (world.path().join("cur.parquet"), "AWS CUR 2.0", (4 * 3 + 4 * 2 + 4) * 31 * 24),
    ];
    for (file, format, rows) in &files {
        for said in ["new", "as it was"] {
            let (code, output) = import(&world, &["billing", text(file)]);
            assert_eq!(code, 0, "{output}");
            for part in [*format, &format!("{rows} read, 0 refused"), said] {
                assert!(output.contains(part), "{output} lacks {part}");
            }
        }
    }
    let lake = world.lake();
    let paths = files.iter().map(|(file, ..)| text(file));
    let args: Vec<_> = ["check", text(&lake)].into_iter().chain(paths).collect();
    client("bills.py", &args, &[]);
    // what the views say of the fleet: hosts by option, as each format tells it
    let options = "SELECT count(DISTINCT host_id) FROM billing WHERE charge_kind = 'host_time' AND account IN ('100000000001', '100000000009') \
                   AND host_type LIKE '%8xlarge' GROUP BY account, \"option\", host_type";
    assert_eq!(sql(&world, options).lines().skip(1).collect::<Vec<_>>(), ["4"; 4]);
}

/// What is exported is FOCUS 1.4, column by column, and comes to what the views say of the same hours.
#[tokio::test(flavor = "multi_thread")]
async fn the_export_is_focus() {
    let world = World::new();
    client("bills.py", &["make", text(world.path())], &[]);
    let (code, output) = import(&world, &["billing", text(&world.path().join("focus.parquet"))]);
    assert_eq!(code, 0, "{output}");
    let file = world.path().join("showback.csv");
    let mut command =
        tokenwatt(&["export", "focus", "--from", "2026-10-01", "--to", "2026-10-01T06:00:00Z", "--file", text(&file)]);
    let output = finish(command.arg("--data").arg(world.lake()).current_dir(world.path()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let columns = repository("tests/data/focus14_columns.csv");
    let checked = client("bills.py", &["focus14", text(&file), text(&columns)], &[]);
    let sums: Vec<_> = checked.split_whitespace().skip(1).collect();
    let hours = "time >= TIMESTAMP '2026-10-01T00:00:00Z' AND time < TIMESTAMP '2026-10-01T06:00:00Z'";
    let asked = sql(
        &world,
        &format!(
            "SELECT sum(public_cost), sum(contracted_cost), sum(coalesce(effective_cost, list_cost)), sum(billed_cost) FROM costs_hours WHERE {hours}"
        ),
    );
    assert_eq!(asked.lines().last().map(|line| line.split(',').collect::<Vec<_>>()), Some(sums.clone()), "{checked}");
    // of hours that are charged in full, as the bill has them: what a savings plan covers is billed elsewhere
    let bill = sql(
        &world,
        &format!(
            "SELECT sum(list_cost), sum(contracted_cost), sum(effective_cost), sum(billed_cost) FROM billing WHERE {hours} AND quantity = 1.0"
        ),
    );
    let of = |text: &str| text.parse::<f64>().expect("a number");
    let bill: Vec<_> = bill.lines().last().expect("a row").split(',').map(of).collect();
    for (ours, theirs) in sums.iter().zip(&bill) {
        // a minute's cost is rounded at the twelfth decimal
        assert!((of(ours) - theirs).abs() < 1e-6, "{checked} is not {bill:?}");
    }
    assert!(
        bill[0] > bill[1] && bill[1] > bill[2] && bill[2] > bill[3] && bill[3] > 100.0,
        "four numbers, each another: {bill:?}"
    );
}

/// A price list with faults is refused row by row, and takes nothing with it; mended, it is a book whose prices are looked up.
#[tokio::test(flavor = "multi_thread")]
async fn a_price_list_is_taken_whole_or_not_at_all() {
    let world = World::new();
    let head = "host_type,region,option,usd_per_hour,effective_from,source\n";
    let good = "inf2.48xlarge,eu-west-1,spot,3.98,2026-11-01,us\np5.48xlarge,us-east-1,savings_plan,31.464000000001,2026-01-01,contract\n";
    let bad = "inf2.48xlarge,eu-west-1,spot,4.05,2026-11-01,them\ninf2.48xlarge,eu-west-1,cheap,1,2026-11-01,us\n";
    let list = world.write("prices.csv", &format!("{head}{good}{bad}"));
    let report = world.path().join("refused.csv");
    let (code, output) = import(&world, &["prices", text(&list), "--report", text(&report)]);
    assert_eq!(code, 65, "{output}");
    assert!(output.contains("2 of 4 rows were refused; nothing was imported"), "{output}");
    let refused = std::fs::read_to_string(&report).expect("the report");
    for part in [
        "file,row,reason",
        ",4,row 2 has another price from the same instant on: 3.98",
        ",5,\"`option` is \"\"cheap\"\"",
    ] {
        assert!(refused.contains(part), "{refused} lacks {part}");
    }
    assert_eq!(sql(&world, "SELECT count(*) AS n FROM prices WHERE book IS NOT NULL"), "n\n0");
    let list = world.write("prices.csv", &format!("{head}{good}"));
    for said in ["book     default: 2 prices, 0 before", "book     default: 2 prices, as it was"] {
        let (code, output) = import(&world, &["prices", text(&list)]);
        assert_eq!(code, 0, "{output}");
        assert!(output.contains(said), "{output} lacks {said}");
        assert!(output.contains("open prices are as of more than 180 days ago"), "{output}");
    }
    let shorter = world.write("prices.csv", &format!("{head}{}\n", good.lines().next().expect("a line")));
    let (_, output) = import(&world, &["prices", text(&shorter)]);
    assert!(output.contains("1 prices, 2 before"), "{output}");
    let row = "SELECT host_type, usd_per_hour, book FROM prices WHERE book IS NOT NULL";
    assert_eq!(sql(&world, row).lines().last(), Some("inf2.48xlarge,3.980000000000,default"));
    let (code, output) = import(&world, &["prices", text(&world.write("other.csv", "type,price\na,1\n"))]);
    assert!(code == 65 && output.contains("columns missing: host_type, region"), "{code} {output}");
    let (code, output) = import(&world, &["billing", text(&list)]);
    assert!(code == 65 && output.contains("neither FOCUS"), "{code} {output}");
}

/// Discounts and exchange rates are lists like a price book: whole or not at all, in place of the one before; a price in another currency
/// says which.
#[tokio::test(flavor = "multi_thread")]
async fn discounts_and_rates_are_taken_whole_or_not_at_all() {
    let world = World::new();
    let head = "currency,usd_per_unit,effective_from,effective_to,source\n";
    let overlapping = format!("{head}EUR,1.08,2026-01-01,2026-03-01,ECB\nEUR,1.09,2026-02-01,,ECB\n");
    let (code, output) = import(&world, &["rates", text(&world.write("rates.csv", &overlapping))]);
    assert!(code == 65 && output.contains("two rates of EUR hold at 2026-02-01T00:00:00Z"), "{code} {output}");
    let rates = world.write("rates.csv", &overlapping.replace(",2026-03-01", ","));
    for said in ["rates: 2 rows, 0 before", "rates: 2 rows, as it was"] {
        let (code, output) = import(&world, &["rates", text(&rates)]);
        assert!(code == 0 && output.contains(said), "{code} {output}");
    }
    let row = |at: u32| format!("EUR,1,2026-01-01T{:02}:{:02}:{:02}Z,,ECB\n", at / 3600, at / 60 % 60, at % 60);
    let many = world.write("many.csv", &(head.to_owned() + &(0..4_001).map(row).collect::<String>()));
    let (code, output) = import(&world, &["rates", text(&many)]);
    assert!(code == 65 && output.contains("more than 4000 of one, are no exchange rates"), "{code} {output}");
    let ends = "SELECT usd_per_unit, effective_to FROM exchange_rates ORDER BY effective_from";
    let expected = "usd_per_unit,effective_to\n1.080000000000,2026-02-01T00:00:00.000000Z\n1.090000000000,";
    assert_eq!(sql(&world, ends).trim_end(), expected);

    let head = "option,factor,effective_from,source\n";
    let bad =
        world.write("discounts.csv", &format!("{head}on_demand,0.9,2026-01-01,us\non_demand,0.8,2026-06-01,us\n"));
    let (code, output) = import(&world, &["discounts", text(&bad)]);
    assert!(code == 65 && output.contains("row 2 says something else of the same time"), "{code} {output}");
    let good = world.write("discounts.csv", &format!("{head}on_demand,0.9,2026-01-01,contract 7\n"));
    let (code, output) = import(&world, &["discounts", "--contract", "edp", text(&good)]);
    assert!(code == 0 && output.contains("edp: 1 rows, 0 before"), "{code} {output}");
    let row = "SELECT \"option\", factor, host_type, contract FROM discounts";
    assert_eq!(sql(&world, row).lines().last(), Some("on_demand,0.900000000000,,edp"));

    let head = "host_type,region,option,price_per_hour,currency,effective_from,source\n";
    let list =
        world.write("prices.csv", &format!("{head}p5.48xlarge,eu-west-1,reserved,29.5,EUR,2026-01-01,contract 8\n"));
    let (code, output) = import(&world, &["prices", text(&list)]);
    assert_eq!(code, 0, "{output}");
    let row = "SELECT usd_per_hour, price_per_hour, currency FROM prices WHERE book = 'default'";
    assert_eq!(sql(&world, row).lines().last(), Some(",29.500000000000,EUR"));
}

/// A measured curve is a list of power models like any other: whole or not at all, with its points.
#[tokio::test(flavor = "multi_thread")]
async fn power_models_are_taken_whole_or_not_at_all() {
    let world = World::new();
    let head = "device,boundary,max_w,load,load_w,effective_from,source\n";
    let good = "p5.48xlarge,wall,,0 0.25 1,3900 7400 10200,2026-11-01,rack meter\n";
    let bad = world.write("bad.csv", &format!("{head}{good}p5.48xlarge,node,,0 1,3900,2026-11-01,us\n"));
    let (code, output) = import(&world, &["power", text(&bad)]);
    assert!(code == 65 && output.contains("2 points of `load`, but 1 of `load_w`"), "{code} {output}");
    let list = world.write("power.csv", &format!("{head}{good}"));
    for said in ["lab: 1 rows, 0 before", "lab: 1 rows, as it was"] {
        let (code, output) = import(&world, &["power", "--list", "lab", text(&list)]);
        assert!(code == 0 && output.contains(said), "{code} {output}");
    }
    let row = "SELECT device, idle_w, max_w, load[2], load_w[2], method FROM power_models WHERE list = 'lab'";
    assert_eq!(sql(&world, row).lines().last(), Some("p5.48xlarge,3900.0,10200.0,0.25,7400.0,load_curve"));
}

/// Grid factors are a list like any other: market based grams and a PUE of the operator's own, beside what comes with Tokenwatt, as whole as
/// they are refused.
#[tokio::test(flavor = "multi_thread")]
async fn grid_factors_are_taken_whole_or_not_at_all() {
    let world = World::new();
    let head = "region,gco2e_per_kwh,method,pue,effective_from,source\n";
    let good = "eu-west-1,12.5,market,1.07,2026-01-01,supplier 4\nus-east-1,,,1.3,2026-01-01,meter of the hall\n";
    let bad = world.write("bad.csv", &format!("{head}{good}us-west-2,90,,1.1,2026-01-01,us\n"));
    let (code, output) = import(&world, &["grid", text(&bad)]);
    assert!(code == 65 && output.contains("`method` must say which grams these are"), "{code} {output}");
    let (code, output) = import(&world, &["grid", text(&world.write("columns.csv", "region,watts\neu-west-1,1\n"))]);
    assert!(
        code == 65 && output.contains("columns unknown: watts") && output.contains("gco2e_per_kwh"),
        "{code} {output}"
    );
    let list = world.write("grid.csv", &format!("{head}{good}"));
    for said in ["green: 2 rows, 0 before", "green: 2 rows, as it was"] {
        let (code, output) = import(&world, &["grid", "--list", "green", text(&list)]);
        assert!(code == 0 && output.contains(said), "{code} {output}");
    }
    let rows = "SELECT region, gco2e_per_kwh, method, pue, as_of FROM grid WHERE list = 'green' ORDER BY region";
    let rows = sql(&world, rows);
    let rows: Vec<_> = rows.lines().skip(1).collect();
    assert_eq!(rows, ["eu-west-1,12.5,market based,1.07,2026-01-01", "us-east-1,,,1.3,2026-01-01"]);
}

/// An inventory names hosts once; what nobody hears of is on a list with its price.
#[tokio::test(flavor = "multi_thread")]
async fn an_inventory_tells_what_is_silent() {
    let world = World::new();
    let head = "host_id,host_type,region,option,chips,effective_from,source\n";
    let host = "i-9,inf2.48xlarge,us-east-1,on_demand,12,2026-01-01,asset list\n";
    let twice = world.write("twice.csv", &format!("{head}{host}{}", host.replace("us-east-1", "us-west-2")));
    let (code, output) = import(&world, &["inventory", text(&twice)]);
    assert!(code == 65 && output.contains("row 2 says something else of the same time"), "{code} {output}");
    let list = world.write("hosts.csv", &format!("{head}{host}"));
    let (code, output) = import(&world, &["inventory", text(&list)]);
    assert!(code == 0 && output.contains("default: 1 rows, 0 before"), "{code} {output}");
    let price = "host_type,region,option,usd_per_hour,effective_from,source\ninf2.48xlarge,us-east-1,on_demand,12.98,2026-01-01,list\n";
    let (code, output) = import(&world, &["prices", text(&world.write("prices.csv", price))]);
    assert_eq!(code, 0, "{output}");
    // seven days less an hour, in hours of which the first is left out and the last may not have begun to be over
    let silent = "SELECT host_id, count(*) BETWEEN 166 AND 167, sum(cost_usd) > 0 FROM silent_hosts GROUP BY host_id";
    assert_eq!(sql(&world, silent).lines().last(), Some("i-9,true,true"));
}
