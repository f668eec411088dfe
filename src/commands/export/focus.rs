//! `tokenwatt export focus`: what each hour of each host cost and for whom, as FOCUS 1.4 rows with the columns of split cost
//! allocation, which FinOps tools read.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};
use service::{Deps, Error, Result};
use telemetry::allocation::{self, UNATTRIBUTED};
use telemetry::contract::{QueryApi, SqlAnswer, SqlRequest};
use telemetry::record::{month, rfc3339};

use crate::cli::Common;
use crate::commands::stretch::{self, minute};
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
    /// File to write: it has its name once it is whole. A pipe, a device such as /dev/stdout, or `-` is written straight to
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
const COLUMNS: [&str; 39] = [
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
    "x_ListCostBasis",
    "x_PriceAsOf",
];

pub(super) async fn run(common: &Common, flags: &Focus) -> std::result::Result<(), Failure> {
    let deps = Deps::system();
    let now_us = deps.clock.now_us();
    let (from_us, to_us) = stretch::hours(&flags.from, &flags.to, now_us)?;
    let config = settings::load_quietly(common)?.config;
    let lakes = config.lakes_to_read(&deps).await?;
    let settings = query::Config { cache_disk_bytes: 0, max_rows: ROWS_MAX, ..config.query() };
    let query = query::build(settings, lakes, deps).await?;
    let out = Out::open(&flags.file).map_err(|error| cannot_write(&flags.file, error.into()))?;
    // the rows are the answer where they go to standard output or to another program
    let tell: fn(String) = if out.is_straight() { print::note } else { print::line };
    let place = (flags.file.as_path(), out);
    let (written, unpriced) = write(&query, (from_us, to_us), &flags.account, place).await?;
    tell(format!("{}  {written} rows", flags.file.display()));
    if unpriced > 0 {
        tell(format!("left out {unpriced} rows without a price: FOCUS has no unknown cost; see view unpriced"));
    }
    if to_us > now_us - HOUR_US {
        tell(format!(
            "hours are whole an hour after their end, at {} the last of these; export again then",
            minute(to_us + HOUR_US)
        ));
    }
    if written + unpriced == 0 {
        print::note(nothing(&query).await?);
    }
    Ok(())
}

/// What there is where nothing was found.
async fn nothing(query: &query::Query) -> std::result::Result<String, Failure> {
    let sql = "SELECT CAST(min(time) AS BIGINT), CAST(max(time) AS BIGINT) FROM costs_1h".to_owned();
    let answer = query.sql(SqlRequest { sql, ..SqlRequest::default() }).await?;
    let at = |place: usize| answer.rows.first()?.get(place)?.as_i64();
    Ok(match (at(0), at(1)) {
        (Some(first), Some(last)) => format!(
            "nothing in these hours cost anything: hours of cost are kept from {} to {}",
            minute(first),
            minute(last + HOUR_US)
        ),
        _ => "nothing in these hours cost anything, and no hour of cost is kept in this lake yet: is --data the right one?".to_owned(),
    })
}

/// Where rows go.
enum Out {
    /// To a file that has its name once it is whole: whoever reads it meanwhile reads the one before.
    File { file: File, part: PathBuf, name: PathBuf, is_whole: bool },
    /// Straight to what cannot be put in the place of another: a pipe, a device, standard output.
    Straight(Box<dyn Write + Send>),
}

impl Out {
    fn open(name: &Path) -> std::io::Result<Out> {
        if name.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        }
        if [Path::new("-"), Path::new("/dev/stdout"), Path::new("/dev/fd/1")].contains(&name) {
            return Ok(Out::Straight(Box::new(std::io::stdout())));
        }
        let is_special = std::fs::metadata(name).is_ok_and(|found| !found.is_file() && !found.is_dir());
        // what the kernel shows of an open file cannot be put in another's place, whatever lies behind it
        let is_open = (name.starts_with("/dev") || name.starts_with("/proc")) && name.is_symlink();
        if is_special || is_open {
            return Ok(Out::Straight(Box::new(File::options().write(true).open(name)?)));
        }
        let part = beside(name);
        Ok(Out::File { file: File::create(&part)?, part, name: name.to_owned(), is_whole: false })
    }

    fn is_straight(&self) -> bool {
        matches!(self, Out::Straight(_))
    }

    /// All is written.
    fn finish(mut self) -> std::io::Result<()> {
        self.flush()?;
        let Out::File { file, part, name, is_whole } = &mut self else { return Ok(()) };
        file.sync_all()?;
        std::fs::rename(part, name)?;
        *is_whole = true;
        Ok(())
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Out::File { file, .. } => file.write(bytes),
            Out::Straight(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Out::File { file, .. } => file.flush(),
            Out::Straight(out) => out.flush(),
        }
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        if let Out::File { part, is_whole: false, .. } = self {
            // the failure is told, and an export that is run again writes this file anew
            let _gone = std::fs::remove_file(part);
        }
    }
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
    (name, out): (&Path, Out),
) -> std::result::Result<(u64, u64), Failure> {
    let cannot = |error: csv::Error| cannot_write(name, error);
    let mut writer = csv::Writer::from_writer(out);
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
    let out = writer.into_inner().map_err(|error| cannot(error.into_error().into()))?;
    out.finish().map_err(|error| cannot(error.into()))?;
    Ok((written, unpriced))
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

/// The four costs of a row, in USD with 12 decimals.
struct Costs<'a> {
    list: &'a str,
    /// What stands as list cost, where FOCUS wants one and nobody knows it.
    list_basis: &'static str,
    contracted: &'a str,
    effective: &'a str,
    billed: &'a str,
}

/// FOCUS has no unknown cost: where no bill and no book says it, the next that is known stands for it, and `x_ListCostBasis` says so of the
/// list's. `None` where nothing is known at all.
fn costs<'a>(row: &Row<'a>) -> Option<Costs<'a>> {
    let price = row.text("list_cost").or_else(|| row.text("effective_cost"))?;
    let contracted = row.text("contracted_cost").unwrap_or(price);
    let (list, list_basis) = match row.text("public_cost") {
        Some(list) => (list, "list price on demand"),
        None => (contracted, "unknown: contracted cost stands for it"),
    };
    // What no bill knows of is estimated, and invoiced by nobody.
    let effective = row.text("effective_cost").unwrap_or(price);
    Some(Costs { list, list_basis, contracted, effective, billed: row.text("billed_cost").unwrap_or("0") })
}

/// The fields of [`COLUMNS`]; `None` for a row whose cost is unknown.
fn focus(row: &Row<'_>, hour_us: i64, account: &str) -> Result<Option<Vec<String>>> {
    let Some(Costs { list, list_basis, contracted, effective, billed }) = costs(row) else { return Ok(None) };
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
    let mut allocated = tags(&["tenant", "namespace", "environment", "model", "part"]);
    let of_keys = row.text("allocation").and_then(allocation::read).unwrap_or_default();
    // a key of the operator's does not take the place of one of ours, which say who is charged
    for (key, value) in of_keys {
        allocated.entry(key).or_insert_with(|| value.unwrap_or_else(|| UNATTRIBUTED.to_owned()).into());
    }
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
        contracted,
        effective,
        billed,
        &method,
        &details.to_string(),
        &whom,
        &whom,
        &Value::Object(allocated).to_string(),
        &Value::Object(tags(&["cluster", "pool", "host_type"])).to_string(),
        row.text("basis").unwrap_or_default(),
        list_basis,
        row.text("price_as_of").unwrap_or_default(),
    ];
    Ok(Some(fields.map(str::to_owned).to_vec()))
}

fn cannot_write(path: &Path, error: csv::Error) -> Failure {
    let kind = match error.kind() {
        csv::ErrorKind::Io(error) => Some(error.kind()),
        _ => None,
    };
    let hint = match kind {
        Some(ErrorKind::IsADirectory) => "it is a directory: name a file in it",
        Some(ErrorKind::NotFound) => "its directory is not there: make it, or write elsewhere",
        Some(ErrorKind::PermissionDenied) => "this user may not write there: name a file in another directory",
        Some(ErrorKind::StorageFull) => {
            "the disk is full: free some of it, or write elsewhere; nothing is left of this try"
        }
        _ => "nothing is left of this try: write elsewhere, or to `-`",
    };
    let error = Error::invalid(format!("cannot write {}", path.display())).with_source(error).with_hint(hint);
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

    /// What is no file is written to as it is; a file has its name once it is whole, and nothing is left of one that failed.
    #[test]
    fn pipes_are_written_straight_and_files_when_they_are_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let (pipe, file) = (folder.path().join("pipe"), folder.path().join("rows.csv"));
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
        assert!(made.success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::read_to_string(pipe).expect("read")
        });
        let mut out = Out::open(&pipe).expect("a pipe");
        assert!(out.is_straight());
        out.write_all(b"a,b\n").expect("written");
        out.finish().expect("whole");
        assert_eq!(reader.join().expect("joined"), "a,b\n");
        let kind = std::fs::symlink_metadata(&pipe).expect("there").file_type();
        assert!(!kind.is_file(), "the pipe is a pipe still");
        assert!(Out::open(Path::new("/dev/stdout")).expect("standard output").is_straight());
        assert!(Out::open(Path::new("/dev/null")).expect("a device").is_straight());
        let shared = Path::new("/dev/shm").join(format!("focus-{}.csv", std::process::id()));
        assert!(!Out::open(&shared).expect("a file like others").is_straight());
        std::fs::write(&file, "before").expect("written");
        let mut out = Out::open(&file).expect("a file");
        out.write_all(b"half").expect("written");
        assert_eq!(std::fs::read_to_string(&file).expect("read"), "before");
        drop(out);
        assert!(!beside(&file).exists() && std::fs::read_to_string(&file).expect("read") == "before");
        let mut out = Out::open(&file).expect("a file");
        out.write_all(b"whole").expect("written");
        out.finish().expect("whole");
        assert!(!beside(&file).exists() && std::fs::read_to_string(&file).expect("read") == "whole");
    }

    /// Configured keys stand beside those of ours, which they do not replace; what nobody named says so, and without keys nothing is there.
    #[test]
    fn tags_have_the_allocation_keys() {
        let names = ["list_cost", "method", "tenant", "part", "allocation"];
        let allocation = json!({"team": "ml", "cost_center": null, "part": "mine"}).to_string();
        let of = exported(
            &names,
            vec![json!("1.5"), json!("device time"), json!("acme"), json!("requests"), json!(allocation)],
        );
        let expected = json!({"tenant": "acme", "part": "requests", "team": "ml", "cost_center": "__unattributed__"});
        assert_eq!(serde_json::from_str::<Value>(&of("AllocatedTags")).expect("tags"), expected);
        let of =
            exported(&names, vec![json!("1.5"), json!("device time"), json!("acme"), json!("requests"), Value::Null]);
        assert_eq!(of("AllocatedTags"), r#"{"part":"requests","tenant":"acme"}"#);
    }

    /// A file that cannot be written says what to do.
    #[test]
    fn a_file_that_cannot_be_written_says_what_to_do() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, told) in
            [(folder.path().to_owned(), "name a file in it"), (folder.path().join("not/there.csv"), "make it")]
        {
            let error = Out::open(&name).err().expect("refused");
            let failure = cannot_write(&name, error.into());
            assert_eq!(failure.code, CANNOT_CREATE);
            assert!(failure.error.hint().is_some_and(|hint| hint.contains(told)), "{}", failure.error);
        }
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
