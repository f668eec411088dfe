//! Grid factors and PUE as operators write them: of a contract, a supplier, a meter of the facility.

use super::{AVERAGE, MARGINAL, MARKET};
use crate::list::{self, AS_OF, CONFIDENCE, Dated, FROM, ListColumn, NOTE, SOURCE, TO, column};
use crate::record::{Record, Refusal};

/// The columns of a list of grid factors, in any order.
pub const COLUMNS: &[ListColumn] = &[
    column("region", true, "region as `cloud.region` says it, such as `eu-west-1`"),
    column("gco2e_per_kwh", false, "grams of CO2e a kilowatt hour, 0 to 5,000; every row has this or `pue`"),
    column(
        "method",
        false,
        "which grams: `average` and `marginal` are location based, `market` is by contracts and certificates; needed with `gco2e_per_kwh`",
    ),
    column("pue", false, "facility energy divided by that of the machines, 1 to 10"),
    FROM,
    TO,
    SOURCE,
    AS_OF,
    CONFIDENCE,
    NOTE,
];

/// What each word of `method` is called in table `grid`.
const METHODS: [(&str, &str); 3] = [("average", AVERAGE), ("marginal", MARGINAL), ("market", MARKET)];
/// Lignite in an old plant emits less than a third of it.
const GRAMS_MAX: f64 = 5_000.0;
/// No facility uses ten times as much as its machines.
const PUE_MAX: f64 = 10.0;

/// One dated factor pair.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Cloud region.
    pub region: String,
    /// Grams of CO₂ equivalent per kilowatt hour, by `method`.
    pub gco2e_per_kwh: Option<f64>,
    /// [`AVERAGE`], [`MARGINAL`] or [`MARKET`]; `None` where there are no grams.
    pub method: Option<&'static str>,
    /// Facility energy divided by IT energy.
    pub pue: Option<f64>,
    /// From when to when, and who says so.
    pub dated: Dated,
}

impl Listed {
    /// Reads a row.
    ///
    /// # Errors
    /// Why it is no grid factor.
    pub fn read(record: Record<'_>) -> Result<Listed, Refusal> {
        let gco2e_per_kwh = record.get("gco2e_per_kwh").map(|text| within("gco2e_per_kwh", text, 0.0, GRAMS_MAX));
        let pue = record.get("pue").map(|text| within("pue", text, 1.0, PUE_MAX)).transpose()?;
        let gco2e_per_kwh = gco2e_per_kwh.transpose()?;
        if gco2e_per_kwh.is_none() && pue.is_none() {
            return Err(Refusal("neither `gco2e_per_kwh` nor `pue` is there".to_owned()));
        }
        let words = METHODS.map(|(word, _)| word);
        let method = match (record.get("method"), gco2e_per_kwh) {
            (Some(word), _) => Some(list::one_of("method", word, &words)?),
            (None, None) => None,
            (None, Some(_)) => {
                return Err(Refusal(format!("`method` must say which grams these are: {}", words.join(", "))));
            }
        };
        let named = |word: &String| METHODS.iter().find(|(short, _)| short == word).map(|(_, name)| *name);
        Ok(Listed {
            region: record.need("region")?.to_owned(),
            gco2e_per_kwh,
            method: method.as_ref().filter(|_| gco2e_per_kwh.is_some()).and_then(named),
            pue,
            dated: Dated::read(record)?,
        })
    }

    /// Whether two rows say otherwise of the same region at the same instant.
    pub fn clashes(&self, other: &Listed) -> bool {
        let grams = self.gco2e_per_kwh.is_some() && self.method == other.method;
        let overheads = self.pue.zip(other.pue).is_some_and(|(one, another)| one != another);
        self.region == other.region && self.dated.overlaps(&other.dated) && (grams || overheads)
    }
}

fn within(name: &str, text: &str, least: f64, most: f64) -> Result<f64, Refusal> {
    match text.parse::<f64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(Refusal(format!("`{name}` has {text:?}, not a number from {least} to {most}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, Listed};
    use crate::list::fixture;

    const NAMES: [&str; 7] = ["region", "gco2e_per_kwh", "method", "pue", "effective_from", "effective_to", "source"];
    const GOOD: [&str; 7] =
        ["eu-west-1", "0", "market", "1.07", "2026-01-01", "2027-01-01", "supplier's certificate 4"];

    fn read(values: [&str; 7]) -> Result<Listed, String> {
        fixture::row(Listed::read, NAMES, values)
    }

    #[test]
    fn a_factor_says_which_grams_it_is() {
        let listed = read(GOOD).expect("a factor");
        assert_eq!((listed.gco2e_per_kwh, listed.method, listed.pue), (Some(0.0), Some("market based"), Some(1.07)));
        let mut overhead = GOOD;
        (overhead[1], overhead[2]) = ("", "");
        let overhead = read(overhead).expect("a PUE alone");
        assert_eq!((overhead.gco2e_per_kwh, overhead.method, overhead.pue), (None, None, Some(1.07)));
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        fixture::refuses(
            Listed::read,
            NAMES,
            GOOD,
            &[
                (0, "", "region"),
                (1, "-1", "`gco2e_per_kwh` has \"-1\", not a number from 0 to 5000"),
                (1, "NaN", "`gco2e_per_kwh`"),
                (2, "green", "`method` is \"green\", not one of average, marginal, market"),
                (2, "", "`method` must say which grams these are"),
                (3, "0.9", "`pue` has \"0.9\", not a number from 1 to 10"),
                (5, "2025-01-01", "not after"),
            ],
        );
        let mut empty = GOOD;
        (empty[1], empty[3]) = ("", "");
        assert!(read(empty).expect_err("nothing").contains("neither `gco2e_per_kwh` nor `pue`"));
    }

    /// Market based grams stand beside location based ones of the same time; two of one kind, or two overheads, do not.
    #[test]
    fn two_factors_of_one_time_clash() {
        let of = |method: &str, grams: &str, pue: &str| {
            let mut values = GOOD;
            (values[1], values[2], values[3]) = (grams, method, pue);
            read(values).expect("a factor")
        };
        let market = of("market", "0", "1.07");
        assert!(!market.clashes(&of("average", "400", "1.07")) && !market.clashes(&of("average", "400", "")));
        assert!(market.clashes(&of("market", "1", "")) && market.clashes(&of("average", "400", "1.2")));
        let mut later = GOOD;
        (later[4], later[5]) = ("2027-01-01", "");
        assert!(!market.clashes(&read(later).expect("a factor")));
    }

    #[test]
    fn docs_name_every_column() {
        fixture::documents("docs/power.md", &crate::power::markdown(), COLUMNS);
    }
}
